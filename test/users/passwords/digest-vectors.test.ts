import { expect, test } from 'vitest'
import { parseDigest } from '../../../src/users/passwords/parse-digest.ts'

/** Of all digests whose source names a program: they were made with it, from this password. */
const PASSWORD = 'correct horse'

/** By their source, each on a line: the digest, and the password where it is not `PASSWORD`. */
const VECTORS: Readonly<Record<string, string>> = {
  'phc-winner-argon2 src/test.c': `
    $argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc password
    $argon2i$m=256,t=2,p=2$c29tZXNhbHQ$tsEVYKap1h6scGt5ovl9aLRGOqOth+AMB+KwHpDFZPs password`,
  'argon2-cffi 25.1': `
    $argon2d$v=19$m=64,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$W7Tk/ModhDadoRfC5n/sTEHkb5oOs0aXbgeOuRnVZDc
    $argon2i$v=19$m=64,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA==$b/I76nyLZb6a/6kpjxTsFU62C46GJANuaxIlxKn8j9Y=
    $argon2id$v=16$m=64,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$OEBlFys22XldvUhZeW4LIMkT4aMkKqXgzOm7IJRxPCM`,
  'Django 5.2': `
    argon2$argon2id$v=19$m=1024,t=2,p=8$ek52SlVCTnBnTlNCR1hUUVNZcklxNw$nyy2K6nIZV0ukVzt2j1fkdv6DUOkDckMdKqWfGerSfk
    bcrypt$$2b$04$FflUVWiR3UCNX.4dqDWWj.iPQredSwKhptkAC3603nFSxBMWLVup6
    bcrypt_sha256$$2b$04$w5QelhwwSO5Ospwl89NtJOsobdyvauSYCtEdvit559m4V8.dDs1/W
    pbkdf2_sha1$1000$fAQSRfRpYZbSAf6amTPvaU$KZgdDe6/IyS73ThtAja5hjvP1LY=
    pbkdf2_sha256$1000$IWP5lc5jvS3hnfiNpHTY2M$/PHLCK9LLeGeuUujkzKeggbhUECOhxEGmu4UVP1WXPE=`,
  "Django's tests/auth_tests/test_hashers.py": `
    pbkdf2_sha256$600000$seasalt$OAXyhAQ/4ZDA9V5RMExt3C1OwQdUpLZ99vm1McFlLRA= lètmein`,
  'pyca bcrypt 5.0': `
    $2a$04$IgQuStm29IOXPowBeNnikO4g/vg4Jz5Fj1YNHF8uNYy6p308sdY72
    {bcrypt}$2b$04$RQtlsC7ue5hODLwZHch7Sel0enVDRiap0oh/n5J50yj5VZhBrQeE2
    {BLF-CRYPT}$2y$04$RQtlsC7ue5hODLwZHch7Sel0enVDRiap0oh/n5J50yj5VZhBrQeE2`,
  'libxcrypt 4.4': `
    {CRYPT}$2b$10$nZvKPlv/oO/vZJ6isyUfcu2eh4yj6g0O1wQvc.fOtcv5hxflg0tK2
    $5$rounds=1024$3FXDvgkDn29zZQDR$4s2c1tkT3GB1zZRWRa21iRHhQzptvf.YY5Y63gOOFWA
    {crypt}$6$rounds=1024$m4MkzGllZrkCY/qp$QYDfgPRkEc//Ub33H5gxmgDd2YzdQSDgghXS.c.6AbtXTsrgaOhXmt7aP6YOGzZclTO6Z/.R6D0sKqTg.R1a90
    $6$$ek/ucQg0IM8SQLyD2D66mpoW0vAF26eA0/pqoN95V.F0nZh1IFuENNo0OikacRkDBk5frNqziMYMdVVrQ0o.51 a`,
  'openssl passwd': `
    $5$saltstring$vc6YOOogU4kWVvwga8e9zTFgKcy4tb5LaPxIiPJzqEC
    $6$saltstring$.r0X7ub5wGR2v4Xz7svCIozfnlorFh19V89t8KC9Umd81uGhFgsyTRNyzQDXDIm17fFcR9z3z7oBNdsyYBbtm/`,
  'Ulrich Drepper, SHA-crypt.txt': `
    $5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5 Hello world!
    $5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA Hello world!
    $5$rounds=5000$toolongsaltstrin$Un/5jzAHMgOGZ5.mWJpuVolil07guHPvOW8mGRcvxa5 This is just a test
    $5$rounds=1400$anotherlongsalts$Rx.j8H.h8HjEDGomFU8bDkXm3XIUnzyxf12oP84Bnq1 a very much longer text to encrypt.  This one even stretches over morethan one line.
    $5$rounds=77777$short$JiO1O3ZpDAxGJeaDIuqCoEFysAe1mZNJRs3pw0KQRd/ we have a short salt string but not a short password
    $6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1 Hello world!
    $6$rounds=1400$anotherlongsalts$POfYwTEok97VWcjxIiSOjiykti.o/pQs.wPvMxQ6Fm7I6IoYN3CmLs66x9t0oSwbtEW7o7UmJEiDwGqd8p4ur1 a very much longer text to encrypt.  This one even stretches over morethan one line.
    $6$rounds=77777$short$WuQyW2YR.hBNpjjRhpYD/ifIw05xdfeEyQoMxIXbkvr0gge1a1x3yRULJ5CCaUeOxFmtlcGZelFl5CxtgfiAc0 we have a short salt string but not a short password`,
  'RFC 6070': `
    $pbkdf2-sha1$i=4096$c2FsdA$SwB5AbdlSJq+rUnZJvch0GWkKcE password
    $pbkdf2-sha1$i=4096,l=25$c2FsdFNBTFRzYWx0U0FMVHNhbHRTQUxUc2FsdFNBTFRzYWx0$PS7sT+QchJuAyNg2YsDkSospGpZM8vBwOA passwordPASSWORDpassword`,
  'RFC 7914': `
    $pbkdf2-sha256$i=80000$TmFDbA$TdzY9guYviGDDO5e8icB+WQaRBjQTAQUrv8Ih2s0q1ah1CWhIlgzVJrbhBtRybMXaicr3ruh0HhHj2Kzl/M8jQ Password
    $scrypt$ln=10,r=8,p=16$TmFDbA$/bq+HJ00cgB4VucZDQHp/nxq18vII3gw53N2Y0s3MWIurzDZLiKjiG/xCSedmDDaxyevuUqD7m2DYMvfoswGQA password
    $scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU=$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw== pleaseletmein`,
  'passlib 1.7.4': `
    $pbkdf2$1000$m1MKQWgNIUQIYYzR.t9biw$UGKLicaM2dryfo0bbyDAf3SMcFA
    $pbkdf2-sha256$29000$sBbCGINQipFSynlPCUHo/Q$ArjzAqhly2G/tYejYSUbZmdKBRvYrlLTTX7E/wvnY2I
    $pbkdf2-sha512$1000$IuR87/0fA.C811qLMaYUwg$8HYsufMoJxGAbl5pLexU8KzIY4wuH/q78woySOOIrC85G.MjH5ysNAjmCVk29pmBBKKedTBgURdmJPpWM3EFGw
    $scrypt$ln=10,r=8,p=1$CiGEkPI+hzDmPAdASGltDQ$RZnYBHOWE1WUr618QLlWxrdAXqKi7+ClZanCUCcCelY
    $P$6WqZKeuyw96p4tPBCfeA4z2FFtwsxB1
    $H$BMJ/KhuLItsUeoz5VH7TLjCvsI2pf.0
    $5$9TFLmIbt9K4riRjm$hUcCWO/mNcF5Fd.M1PVVzQxmM.hAWbPlJHphd1XR7F2
    {SHA}L55TUjtiq8FBorTWAZ0jy6g129A=
    {SSHA}CAfc+IBJYhvVFVWRfUgaqnZMnurwnhNC
    {SSHA256}vmitlC5L61b/RaS3PAouGB2V5jEd48JeaAxnUF5Dqt36v9fa+38PQQ==
    {SSHA512}4/SYWvzUXMgLCgX6vzP6mDHIy6hTn3C0uwyrF1mUeeBbuPVhPhlVXRmoEWmZe3GAmuaytj0BXhcoMBN52wKLvdP6P2cM4dz7
    {MD5}PLTnMmMfR+brlh80VUt83g==
    {SMD5}TeZ6M573l3JiF15BasvEIfAeg5A=`,
  'Werkzeug 3.1': `
    pbkdf2:sha1:1000$2efUAImbAUuQuEKV$8709ec75ddff049e4e908783068749d1a9933765
    pbkdf2:sha256:1000$oEYRGLLDAHBnsi1h$34629b73083f79d6b4cb3f644407469fbd31306bc707b791158d32901562ef83
    pbkdf2:sha512:1000$lXMoSshcl4WMRTGd$7790327fee0ad4e6dd47e3bb7b490e9c4bbb160fd79ebbf8cafd1d33aad63e9abfc15cc9167d8c3dbe148128f4a332a7627496ccf16d5e804cd0988939c25959
    scrypt:32768:8:1$WBiqgfQKmsB5Yxp6$ade1df772f631a27575ff0bfebdf6de4411a0062e6fbc67eac8094272ca3e116e735a81f1e7b2b93b0fab2e8ca3e6a8a2bdd5fe28ead1d01f6bbdac1878d9ee1`,
  "ASP.NET Identity's test/PasswordHasherTest.cs": `
    AAABAgMEBQYHCAkKCwwNDg+ukCEMDf0yyQ29NYubggHIVY0sdEUfdyeM+E1LtH1uJg== my password
    AQAAAAEAA9CQAAAAIESkQuj2Du8Y+kbc5lcN/W/3NiAZFEm11P27nrSN5/tId+bR1SwV8CO1Jd72r4C08OLvplNlCDc3oQZ8efcW+jQ= my password
    AQAAAAIAAAD6AAAAIJbVi5wbMR+htSfFp8fTw8N8GOS/Sje+S/4YZcgBfU7EQuqv4OkVYmc4VJl9AGZzmRTxSkP7LtVi9IWyUxX8IAAfZ8v+ZfhjCcudtC1YERSqE1OEdXLW9VukPuJWBBjLuw== my password`,
  // Version 2 begins with a zero byte and the salt, here one of 5f 01 02 … and one of ff 01 02 …
  "Python's hashlib.pbkdf2_hmac": `
    AF8BAgMEBQYHCAkKCwwNDg8WbRmWWp3zStKYk3hkZRn97mDbclQ9Hl0wAri62zlkOw== my password
    AP8BAgMEBQYHCAkKCwwNDg9VdVpQ/nlKW4tBU2mzkKAuIjwu5j0IHS9/DRDuKej2jA== my password`,
  'github.com/firebase/scrypt README': `
    $firescrypt$ln=14,r=8,p=1$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==$Bw==$jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA== user1password`,
  "zitadel/passwap's firebasescrypt_test.go, without a separator": `
    $firescrypt$ln=14,r=8,p=1$42xEC+ixf3L2lw==$NohHtJ2FmkEqzefZ0IHnOlqTzFN8n6vXXd0EW2OIGuUh4rcwvVh7XVRDVs5yOrueoudRPIoimS6jIwf4pMW3rg==$$jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA== user1password`,
  "GoTrue's internal/crypto/password_test.go": `
    $fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3MjKj1b2g6AUCAlFwMw==$C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvEJlM5tQaJP84+hfTw== mytestpassword`,
  "MediaWiki's tests/phpunit/includes/password/Pbkdf2PasswordTest.php": `
    :pbkdf2:sha1:4096:20:c2FsdA==:SwB5AbdlSJq+rUnZJvch0GWkKcE= password`,
  "Python's hashlib.pbkdf2_hmac, in MediaWiki's form": `
    :pbkdf2:sha512:1000:64:AAECAwQFBgcICQoLDA0ODw==:Xpx07WjVx4vCIvrmBRj8uOoVVtGqJqtUv2J5bhizSQs7osCteF7W4A61dZDqSIqQjO+dxO6p5FT/Uy7QRBXSXA==`,
  'phpass 0.3 test.php': `
    $P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0 test12345`,
  "passlib's tests of phpass": `
    $H$9aaaaaSXBjgypwqm.JsMssPLiS8YQ00 test1
    $P$FiS0N5L672xzQx1rt1vgdJQRYKnQM9/ compL3X!`,
  'WordPress 6.8, found in public tests of logins beside it': `
    $wp$2y$10$gN3SQdbNc/cVlK7DylUiVumiuujud7lR0h5J4M2ZsNRMYOFbED16q Test123Now!
    $wp$2y$10$Q1xinFjrZeLWJBvxviIL6u834Fu.evIEFHAUVisQ5O.w9Dm0sMdES admin`,
}

/** Of passwords that are empty or long. */
const OF_ODD_PASSWORDS: readonly (readonly [source: string, digest: string, password: string])[] = [
  ['libxcrypt 4.4', '$5$rounds=1000$s$cdjvTno7yp4OJ1Yyxn95LrCQTyxHsv3TK6lXb48P4L1', ''],
  [
    'libxcrypt 4.4',
    '$6$rounds=1000$s$QX0Jf2.hEEac0uwh3SqR1pyAJlKlWqoXfxBqVdMwpat3rsIfkqF97dM3/GCFzCBcZGftfYLFfyTo9YNe7BuK01',
    'y'.repeat(300),
  ],
  ["passlib's tests of phpass", '$P$7JaFQsPzJSuenezefD/3jHgt5hVfNH0', ''],
]

test.each([
  ...Object.entries(VECTORS).flatMap(([source, lines]) =>
    Array.from(lines.matchAll(/(\S+)(?: (.+))?/g), ([, text = '', password = PASSWORD]) => ({
      ...{ source, text, password },
    })),
  ),
  ...OF_ODD_PASSWORDS.map(([source, text, password]) => ({ source, text, password })),
])('of $source: $text verifies its own password only', async ({ text, password }) => {
  const digest = parseDigest(text)
  expect(digest).toMatchObject({ isAffordable: true, text: expect.stringMatching(/^\$/) })
  expect(await digest?.verify(password)).toBe(true)
  for (const wrong of [`${password}x`, `${password}\0`, `${password}\0${password}`]) {
    expect(await digest?.verify(wrong)).toBe(false)
  }
  const canonical = parseDigest(digest?.text ?? '')
  expect(canonical).toMatchObject({ text: digest?.text, kind: digest?.kind })
  expect(await canonical?.verify(password)).toBe(true)
})

const KEY = 'lIw9jIqJNe8R3KAH3Yj4rw'
const HEX = '948c3d8c8a8935ef11dca007dd88f8af'
const BCRYPT = '04$RQtlsC7ue5hODLwZHch7Sel0enVDRiap0oh/n5J50yj5VZhBrQeE2'
const SHA_256 = '5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8'
/** Twice as long, as Django, Werkzeug and passlib keep SHA-256; then as SHA-1 has it, and as scrypt of Werkzeug. */
const KEY_32 = 'lIw9jIqJNe8R3KAH3Yj4r5SMPYyKiTXvEdygB92I+K8'
const KEY_20 = 'lIw9jIqJNe8R3KAH3Yj4r5SMPYw'
const KEY_64 =
  'lIw9jIqJNe8R3KAH3Yj4r5SMPYyKiTXvEdygB92I+K+UjD2Miok17xHcoAfdiPivlIw9jIqJNe8R3KAH3Yj4rw'
const PBKDF2 = `$pbkdf2-sha256$i=1000$c2FsdA$${KEY_32}`
const SCRYPT = `$scrypt$ln=15,r=8,p=1$c2FsdA$${KEY_64}`
const FIRESCRYPT = `$firescrypt$ln=14,r=8,p=1$42xEC+ixf3L2lw$${KEY}$Bw$${KEY}`

const GOTRUE = `$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=${KEY}==$42xEC+ixf3L2lw==$${KEY}==`

test.each([
  [
    `$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQ$${KEY}`,
    `$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQ=$${KEY}==`,
    ...['argon2$', '{ARGON2ID}$', '{argon2@SpringSecurity_v5_8}$', '3|$'].map(
      wrapper => `${wrapper}argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQ$${KEY}`,
    ),
  ],
  [
    `$argon2i$v=16$m=64,t=2,p=1$c29tZXNhbHQ$${KEY}`,
    ...['$', '2|$'].map(wrapper => `${wrapper}argon2i$m=64,t=2,p=1$c29tZXNhbHQ$${KEY}`),
  ],
  [
    ...[`$2b$${BCRYPT}`, `$2a$${BCRYPT}`, `$2y$${BCRYPT}`, `{bcrypt}$2a$${BCRYPT}`],
    ...[
      `{BLF-CRYPT}$2y$${BCRYPT}`,
      `{CRYPT}$2b$${BCRYPT}`,
      `bcrypt$$2b$${BCRYPT}`,
      `1|$2y$${BCRYPT}`,
    ],
    // Bits that say nothing.
    `$2b$${BCRYPT.replace('Sel0', 'Sfl0').replace(/2$/, '3')}`,
  ],
  [`$bcrypt_sha256$2b$${BCRYPT}`, `bcrypt_sha256$$2b$${BCRYPT}`],
  [`$wp$2y$${BCRYPT}`],
  [
    ...[
      PBKDF2,
      `$pbkdf2-sha256$i=1000,l=32$c2FsdA==$${KEY_32}=`,
      `$pbkdf2-sha256$1000$c2FsdA$${KEY_32}`,
      `:pbkdf2:sha256:1000:32:c2FsdA==:${KEY_32}=`,
    ],
    ...[`pbkdf2_sha256$1000$salt$${KEY_32}=`, `pbkdf2:sha256:1000$salt$${HEX.repeat(2)}`],
  ],
  [`$pbkdf2-sha1$i=1000$+sFsdA$${KEY_20}`, `$pbkdf2$1000$.sFsdA$${KEY_20}`],
  [
    `$pbkdf2-sha1$i=1000$AAECAwQFBgcICQoLDA0ODw$MDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk8`,
    'AAABAgMEBQYHCAkKCwwNDg8wMTIzNDU2Nzg5Ojs8PT4/QEFCQ0RFRkdISUpLTE1OTw==',
    ...['', '1|', '{X}'].map(
      wrapper =>
        `${wrapper}AQAAAAAAAAPoAAAAEAABAgMEBQYHCAkKCwwNDg8wMTIzNDU2Nzg5Ojs8PT4/QEFCQ0RFRkdISUpLTE1OTw==`,
    ),
  ],
  [SCRYPT, `${SCRYPT}==`, `scrypt:32768:8:1$salt$${HEX.repeat(4)}`],
  [FIRESCRYPT, FIRESCRYPT.replace('+', '-').replace('$Bw$', '$Bw==$'), GOTRUE],
  ['$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0', '$H$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0'],
  [
    `$5$salt$${SHA_256}`,
    `$5$rounds=5000$salt$${SHA_256}`,
    `{CRYPT}$5$salt$${SHA_256}`,
    `{SHA256-CRYPT}$5$salt$${SHA_256}`,
  ],
  [
    '$ldap-sha1$8J4TQg$CAfc+IBJYhvVFVWRfUgaqnZMnuo',
    ...['', '1|', '{X}'].map(wrapper => `${wrapper}{SSHA}CAfc+IBJYhvVFVWRfUgaqnZMnurwnhNC`),
  ],
  ['$ldap-sha1$$L55TUjtiq8FBorTWAZ0jy6g129A', '{SHA}L55TUjtiq8FBorTWAZ0jy6g129A='],
  ['$ldap-md5$8B6DkA$TeZ6M573l3JiF15BasvEIQ', '{smd5}TeZ6M573l3JiF15BasvEIfAeg5A='],
])('%s is the one form of all spellings', (canonical, ...spellings) => {
  for (const text of [canonical, ...spellings]) expect(parseDigest(text)?.text).toBe(canonical)
})
