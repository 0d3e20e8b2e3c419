import { mkdirSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findPassword } from '../../../src/storage/postgres/client-config.ts'
import {
  type Certificates,
  canMakeCertificates,
  makeCertificates,
} from '../../support/certificates.ts'
import { openTestApp } from '../../support/open-test-app.ts'

describe.skipIf(!canMakeCertificates)('a service does not start', () => {
  let files: Certificates

  beforeAll(() => {
    files = makeCertificates()
    for (const name of ['ca', 'client', 'other']) files.makeKey(name)
    files.makeAuthority('ca')
    files.makeCertificate('client', { by: 'ca', key: 'client', commonName: 'ann' })
    writeFileSync(files.path('empty.pem'), '')
    const broken = files.text('ca.pem').replace(/\n.{40}/, '\n')
    writeFileSync(files.path('broken.pem'), broken)
    const locked = ['-----BEGIN ENCRYPTED PRIVATE KEY-----', '-----END ENCRYPTED PRIVATE KEY-----']
    writeFileSync(files.path('locked.key'), locked.join('\nMIIB\n'))
    mkdirSync(files.path('folder.pem'))
  })

  afterAll(() => files?.remove())

  const NO_CERTIFICATE = 'is not a certificate in PEM format'
  const NO_KEY = 'is not the private key of sslcert in PEM format without a passphrase'

  test.each([
    ['sslrootcert', 'missing.pem', 'cannot be read (there is no such file)'],
    ['sslrootcert', 'folder.pem', 'cannot be read (it is a folder)'],
    ['sslrootcert', 'empty.pem', NO_CERTIFICATE],
    ['sslrootcert', 'broken.pem', NO_CERTIFICATE],
    ['sslcert', 'client.key', NO_CERTIFICATE],
    ['sslkey', 'client.pem', NO_KEY],
    ['sslkey', 'locked.key', NO_KEY],
    ['sslkey', 'other.key', NO_KEY],
  ])('with %s=%s, which %s', async (parameter, file, why) => {
    const right = { sslrootcert: 'ca.pem', sslcert: 'client.pem', sslkey: 'client.key' }
    const paths = Object.entries({ ...right, [parameter]: file })
    const query = paths.map(([name, path]) => `&${name}=${files.path(path)}`).join('')
    const url = `postgres://localhost/users?sslmode=verify-full${query}`
    const started = openTestApp({ env: { DATABASE_URL: url } })
    const message = `the file "${files.path(file)}" of ${parameter} ${why}`
    await expect(started).rejects.toThrow(message)
  })
})

test.each([
  ['::1:5432:db:ann:x', 'x'],
  [String.raw`\:\:1:5432:d\b:ann:x`, 'x'],
  [String.raw`*:*:*:*:x\:`, 'x:'],
  ['*:*:*:*::x::', ':x::'],
  [`*:*:*:*:x\\`, `x\\`],
  [String.raw`*:*:*:*:\\x\y`, `\\xy`],
  ['*:*:*:*:', ''],
  ['::2:5432:db:ann:y\n#*:*:*:*:y\n*:*:*:an:y\n*:*:*:ann:x😀\r\n*:*:*:*:y', 'x😀'],
  [':*:*:*:x', undefined],
  [String.raw`*:*:*:\*nn:x`, undefined],
  ['*:*:*:ann', undefined],
  ['', undefined],
])('findPassword finds in %j, as libpq does, %j', (text, password) => {
  expect(findPassword(text, ['::1', '5432', 'db', 'ann'])).toBe(password)
})
