import { randomBytes, scryptSync } from 'node:crypto'
import { hashSync as hashArgon2 } from '@node-rs/argon2'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import {
  isCurrentDigest,
  isPasswordDigest,
  verifyDigest,
} from '../../../src/users/passwords/digest.ts'
import { createPasswordHasher } from '../../../src/users/passwords/hasher.ts'

const PASSWORD = 'correct horse'

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}

function scryptDigest(password: string, { ln = 10, r = 8, p = 1 } = {}): string {
  const salt = randomBytes(16)
  const key = scryptSync(password, salt, 32, { N: 2 ** ln, r, p })
  return `$scrypt$ln=${ln},r=${r},p=${p}$${unpadded(salt)}$${unpadded(key)}`
}

const BCRYPT = hashBcrypt(PASSWORD, 4)

const CURRENT = await createPasswordHasher().hash(PASSWORD)

test.each([
  ['Argon2id of this service', CURRENT],
  ['Argon2i', hashArgon2(PASSWORD, { algorithm: 1, memoryCost: 64, timeCost: 1 })],
  ['Argon2d', hashArgon2(PASSWORD, { algorithm: 0, memoryCost: 64, timeCost: 1 })],
  ['bcrypt', BCRYPT],
  ['bcrypt with the prefix of PHP', BCRYPT.replace('$2b$', '$2y$')],
  ['scrypt', scryptDigest(PASSWORD)],
  ['scrypt in two lanes', scryptDigest(PASSWORD, { ln: 4, r: 1, p: 2 })],
])('a digest of %s is recognised, and verifies only its own password', async (_kind, digest) => {
  expect(isPasswordDigest(digest)).toBe(true)
  expect(await verifyDigest(digest, PASSWORD)).toBe(true)
  for (const wrong of ['wrong horse', `${PASSWORD}\0`, `${PASSWORD}\0${PASSWORD}`]) {
    expect(await verifyDigest(digest, wrong)).toBe(false)
  }
})

test.each([
  '',
  'correct horse',
  '$1$salt$5f4dcc3b5aa765d61d8327deb882cf99',
  '$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ',
  '$argon2id$v=18$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=4194304,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=999,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=0$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0A$aGFzaGhhc2hoYXNoaGFzaA',
  '$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaB',
  '$2b$31$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '$2x$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
  '$2b$10$short',
  '$scrypt$ln=18,r=8,p=5$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$scrypt$ln=17,r=8,p=16$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$scrypt$ln=16,r=0,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$scrypt$ln=16,r=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  '$pbkdf2-sha256$i=1000$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g',
  `${BCRYPT}\n`,
])('%j is not a digest that can be verified', async digest => {
  expect(isPasswordDigest(digest)).toBe(false)
  expect(await verifyDigest(digest, PASSWORD)).toBe(false)
})

// The parameters of the OWASP Password Storage Cheat Sheet, and the largest accepted ones.
test.each([
  ...['ln=17,r=8,p=1', 'ln=16,r=8,p=2', 'ln=15,r=8,p=3', 'ln=14,r=8,p=5', 'ln=13,r=8,p=10'],
  ...['ln=18,r=8,p=4', 'ln=10,r=8,p=16'],
])('scrypt with %s is accepted', parameters => {
  const digest = `$scrypt$${parameters}$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaGhhc2g`
  expect(isPasswordDigest(digest)).toBe(true)
})

test('every accepted digest can be verified, however long its salt and its hash are', async () => {
  for (let bytes = 4; bytes <= 70; bytes++) {
    for (const text of [unpadded(randomBytes(bytes)), `${unpadded(randomBytes(bytes))}A`]) {
      const digests = ['i', 'd', 'id'].flatMap(kind => [
        `$argon2${kind}$v=19$m=8,t=1,p=1$${text}$aGFzaGhhc2hoYXNoaGFzaA`,
        `$argon2${kind}$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$${text}`,
        `$scrypt$ln=4,r=1,p=1$c2FsdHNhbHQ$${text}`,
      ])
      for (const digest of digests) expect(await verifyDigest(digest, PASSWORD)).toBe(false)
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
  ['scrypt', scryptDigest(PASSWORD), false],
])('a digest of %s is kept or replaced after a login', (_kind, digest, isCurrent) => {
  expect([isPasswordDigest(digest), isCurrentDigest(digest)]).toEqual([true, isCurrent])
})

test('a digest of another system verifies a password as typed and normalised, and no other', async () => {
  const { verify } = createPasswordHasher()
  const typed = 'ﬁne ﬂour'
  expect(await verify(hashBcrypt(typed, 4), typed)).toBe(true)
  expect(await verify(hashBcrypt('fine flour', 4), typed)).toBe(true)
  expect(await verify(hashBcrypt('other flour', 4), typed)).toBe(false)
})
