import { createHash, createHmac, randomBytes } from 'node:crypto'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { createPasswordHasher } from '../../../src/users/passwords/hasher.ts'
import {
  digestLikeness,
  isCurrentDigest,
  parseDigest,
} from '../../../src/users/passwords/parse-digest.ts'

const PASSWORD = 'correct horse'

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}

const BCRYPT = hashBcrypt(PASSWORD, 4)

const CURRENT = await createPasswordHasher().hash(PASSWORD)

test.each([
  '',
  'correct horse',
  '$1$salt$5f4dcc3b5aa765d61d8327deb882cf99',
  '$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ',
  '$argon2id$v=18$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=0$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=31,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=4,keyid=AB$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0A$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaB',
  '$2b$03$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '$2b$32$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '$2x$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  'bcrypt_sha256$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '$2b$10$short',
  '$scrypt$ln=16,r=0,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$scrypt$ln=16,r=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  'scrypt:32767:8:1$salt$948c3d8c8a8935ef11dca007dd88f8af',
  'scrypt:32768:8:1$salt$948c3d8c8a8935ef11dca007dd88f8a',
  '$firescrypt$ln=14,r=8,p=1$42xEC+ixf3L2lw$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$firescrypt$ln=14,r=8,p=1$42xEC+ixf3L2lw$aGFzaGhhc2hoYXNoaGFzaGhhc2g$Bw$aGFzaGhhc2hoYXNoaGFzaA',
  '$pbkdf2-sha256$i=0$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$pbkdf2-sha384$i=1000$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  'pbkdf2_sha256$600000$salt$hash=',
  // Cut short: what Django, Werkzeug, passlib and MediaWiki write has one length.
  'pbkdf2_sha256$600000$salt$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  `pbkdf2:sha256:1000$salt$${'0'.repeat(62)}`,
  `scrypt:32768:8:1$salt$${'0'.repeat(126)}`,
  '$pbkdf2-sha256$29000$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  ':pbkdf2:sha256:1000:32:c2FsdA==:aGFzaGhhc2hoYXNoaGFzaGhhc2g=',
  '$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  'argon2$argon2id$v=19$m=1024,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '{argon2}{bcrypt}$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '4|$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  // From the tests of ASP.NET Identity: one byte less or more, an unknown hash function, a key that is too short.
  'AAABAgMEBQYHCAkKCwwNDg+ukCEMDf0yyQ29NYubggE=',
  'AAABAgMEBQYHCAkKCwwNDg+ukCEMDf0yyQ29NYubggHIVY0sdEUfdyeM+E1LtH1uJgAAAAAAAAAAAAA=',
  'AQAAAAMAACcQAAAAEB98ik4rMnThQzVdtfVfStpq0EpSA4tnEhciZTU8kznWADk4TOPsjRjqrA7PGIfxlQ==',
  'AQAAAAIAAAAyAAAAEOMwvh3+FZxqkdMBz2ekgGhwQ4A=',
  'AQAAAAAAAAD6AAAAEAhftMyfTJylOlZT+eEotFXd1elee8ih5WsjXaR3PA9M',
  '$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r!L0',
  '$P$4IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0',
  '$5$rounds=999$salt$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8',
  '$6$salt$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8',
  '$5$seventeen.letters$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8',
  '{SSHA}L55TUjtiq8FBorTWAZ0jy6g129A=',
  '{SHA}CAfc+IBJYhvVFVWRfUgaqnZMnurwnhNC',
  '{SSHA384}CAfc+IBJYhvVFVWRfUgaqnZMnurwnhNC',
  `${BCRYPT}\n`,
])('%j is not a digest that can be verified', async digest => {
  expect(parseDigest(digest)).toBeUndefined()
  expect(await createPasswordHasher().verify(digest, PASSWORD)).toBe(false)
})

test.each([
  '$argon2id$v=19$m=4194304,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=999,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=17$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$2b$17$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '$wp$2y$31$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '$scrypt$ln=19,r=8,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$scrypt$ln=18,r=8,p=5$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$scrypt$ln=17,r=8,p=16$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$firescrypt$ln=31,r=8,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA$Bw==$a2V5a2V5a2V5a2V5a2V5aw',
  '$pbkdf2-sha256$i=5000001$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  // Two blocks of SHA-1.
  '$pbkdf2-sha1$i=2500001$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaA',
  '$P$JIQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0',
  '$5$rounds=1000001$salt$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8',
])('%j is a digest that costs too much, and is not computed', async digest => {
  expect(parseDigest(digest)).toMatchObject({ isAffordable: false })
  expect(await createPasswordHasher().verify(digest, PASSWORD)).toBe(false)
  expect(await createPasswordHasher().verifyEvenly(digest, PASSWORD)).toBe(false)
})

const HEX = '5f4dcc3b5aa765d61d8327deb882cf99'

test.each<[likeness: ReturnType<typeof digestLikeness>, texts: readonly string[]]>([
  [
    'known',
    [
      ...[`{CRYPT}${BCRYPT}`, `1|${BCRYPT}`, '{argon2@SpringSecurity_v5_8}$argon2id$v=19$m=1'],
      ...['pbkdf2_sha256$600000$salt$hash=', 'scrypt:32768:8:1$salt', '$argon2id$v=19$m=65536'],
      ...['{ssha}CAfc+IBJYhvVFVWR', 'bcrypt$$2b$12$', `$6$s$${'a'.repeat(85)}.`],
      ...['$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0', `$2b$31$${'a'.repeat(53)}`],
      ...['$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=a$b$c', ':pbkdf2:sha512:30000:64:a:b'],
      ...['AQAAAAIAAYagAAAAEAcHBwcHBwcHBwcHBwcHBwf3aTdQDTUvNiEGxVk', '1|{ssha}CAfc+IBJYhvVFVWR'],
    ],
  ],
  [
    'other',
    [
      ...['$1$Xy7Qp2Lm$abc', '$S$DXy7Qp2LmXy7', '$y$j9T$abc$def', '$apr1$a$b'],
      ...['{noop}correct horse', `{pbkdf2}${HEX}${HEX}`, '{sha256}912b39d0', '$md5,rounds=5$a$b'],
      ...['{PBKDF2}$1$abc$5000$d', '3|$unknown$v', `*${HEX}5aa765d6`, `:A:${HEX}`],
      ...[
        `:B:salt:${HEX}`,
        'scrypt$salt$16384$8$1$hash=',
        `sha1$salt$${HEX}5aa765d6`,
        `md5$$${HEX}`,
      ],
    ],
  ],
  // With nothing that says so.
  ['bare', [HEX, `${HEX}:salt`, HEX.toUpperCase(), HEX.repeat(2), HEX.repeat(4), `${HEX}5aa765d6`]],
  // A password.
  [
    undefined,
    [
      ...['$5 dollars please', '{curly} braces are fine', '$2b or not', '{MD5} and horse'],
      ...['scrypt: salt', 'scrypt$alt$lake', 'md5$um$of money', 'pbkdf2-horse'],
      ...['AAAAAAAAAAAAAAAA', '3 | $ of it', '$horse', '*battery*'],
      ...[HEX.slice(1), `${HEX}0`, `x${HEX}`],
    ],
  ],
])('digestLikeness is %s of what looks like it', (likeness, texts) => {
  for (const text of texts) expect([text, digestLikeness(text)]).toEqual([text, likeness])
})

// What that of bcrypt itself judges is in password-verifications.test.ts.
test('a digest of a hash of the password judges all of it, also beyond 72 bytes', async () => {
  const { verifyEvenly } = createPasswordHasher()
  const bytes = 'x'.repeat(72)
  const hashed = createHash('sha256').update(bytes).digest('hex')
  const keyed = createHmac('sha384', 'wp-sha384').update(bytes).digest('base64')
  for (const digest of [
    `bcrypt_sha256$${hashBcrypt(hashed, 4)}`,
    `$wp${hashBcrypt(keyed, 4)}`,
    `{SHA}${createHash('sha1').update(bytes).digest('base64')}`,
  ]) {
    expect(await verifyEvenly(digest, bytes)).toBe('whole')
    expect(await verifyEvenly(digest, `${bytes}x`)).toBe(false)
  }
})

test.each([
  '$P$FIQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0',
  '$5$rounds=100000$salt$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8',
])('the event loop turns between the rounds of %s', async text => {
  let turns = 0
  const count = () => {
    turns++
    counter = setImmediate(count)
  }
  let counter = setImmediate(count)
  expect(await parseDigest(text)?.verify(PASSWORD)).toBe(false)
  clearImmediate(counter)
  expect(turns).toBeGreaterThan(100)
})

test('kinds tell only what a verification costs', () => {
  const kindOf = (text: string) => parseDigest(text)?.kind
  const key = unpadded(randomBytes(32))
  expect(kindOf(`$wp${BCRYPT}`)).toBe(kindOf(`{CRYPT}${BCRYPT}`))
  expect(kindOf(BCRYPT.replace('$04$', '$05$'))).not.toBe(kindOf(BCRYPT))
  // A key of 32 bytes takes two runs with SHA-1.
  expect(kindOf(`$pbkdf2-sha1$i=1000$c2FsdA$${key}`)).toBe(
    kindOf(`$pbkdf2-sha1$i=2000$c2FsdHNhbHQ$${unpadded(randomBytes(20))}`),
  )
})

// The parameters of the OWASP Password Storage Cheat Sheet, and the largest accepted ones.
test.each([
  ...['ln=17,r=8,p=1', 'ln=16,r=8,p=2', 'ln=15,r=8,p=3', 'ln=14,r=8,p=5', 'ln=13,r=8,p=10'],
  ...['ln=18,r=8,p=4', 'ln=10,r=8,p=16'],
])('scrypt with %s is accepted', parameters => {
  const digest = `$scrypt$${parameters}$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g`
  expect(parseDigest(digest)?.isAffordable).toBe(true)
})

test('every accepted digest can be verified, however long its salt and its hash are', async () => {
  for (let bytes = 4; bytes <= 70; bytes++) {
    for (const text of [unpadded(randomBytes(bytes)), `${unpadded(randomBytes(bytes))}A`]) {
      const digests = ['i', 'd', 'id'].flatMap(kind => [
        `$argon2${kind}$v=19$m=8,t=1,p=1$${text}$aGFzaGhhc2hoYXNoaGFzaA`,
        `$argon2${kind}$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$${text}`,
        `$scrypt$ln=4,r=1,p=1$c2FsdHNhbHQ$${text}`,
      ])
      for (const digest of digests)
        expect((await parseDigest(digest)?.verify(PASSWORD)) ?? false).toBe(false)
    }
  }
})

test.each([
  ['this service', CURRENT, true],
  ['more memory', CURRENT.replace('m=19456,t=2', 'm=65536,t=1'), true],
  ['more passes and lanes', CURRENT.replace('t=2,p=1', 't=3,p=2'), true],
  ['fewer passes', CURRENT.replace('t=2', 't=1'), false],
  ['less memory', CURRENT.replace('m=19456,t=2', 'm=1024,t=8'), false],
  ['an old version', CURRENT.replace('v=19', 'v=16'), false],
  ['Argon2i', CURRENT.replace('argon2id', 'argon2i'), false],
  ['a short salt', CURRENT.replace(/\$[^$]*(\$[^$]*)$/, `$${'A'.repeat(11)}$1`), false],
  ['a short hash', CURRENT.replace(/[^$]*$/, 'A'.repeat(22)), false],
  ['scrypt', '$scrypt$ln=17,r=8,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g', false],
])('a digest of %s is kept or replaced after a login', (_kind, digest, isCurrent) => {
  expect([parseDigest(digest)?.isAffordable, isCurrentDigest(digest)]).toEqual([true, isCurrent])
})

test('a digest of another system verifies a password as typed and normalised, and no other', async () => {
  const { verify } = createPasswordHasher()
  const typed = 'ﬁne ﬂour'
  expect(await verify(hashBcrypt(typed, 4), typed)).toBe(true)
  expect(await verify(hashBcrypt('fine flour', 4), typed)).toBe(true)
  expect(await verify(hashBcrypt('other flour', 4), typed)).toBe(false)
})
