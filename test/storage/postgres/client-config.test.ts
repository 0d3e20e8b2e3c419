import { mkdirSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PostgresLocation } from '../../../src/postgres-location.ts'
import { createClientConfigs } from '../../../src/storage/postgres/client-config.ts'
import { UnusableDatabase } from '../../../src/storage/unusable-database.ts'
import {
  type Certificates,
  canMakeCertificates,
  makeCertificates,
} from '../../support/certificates.ts'
import { openTestApp } from '../../support/open-test-app.ts'

if (!canMakeCertificates) console.error('tests of TLS are skipped: openssl is not installed')

describe.skipIf(!canMakeCertificates)('createClientConfigs refuses', () => {
  let files: Certificates

  beforeAll(() => {
    files = makeCertificates()
    for (const name of ['ca', 'client', 'other']) files.makeKey(name)
    files.makeAuthority('ca')
    files.makeCertificate('client', { by: 'ca', key: 'client', commonName: 'ann' })
    writeFileSync(files.path('text.pem'), 'to do: nothing\n')
    writeFileSync(files.path('empty.pem'), '')
    const broken = files.text('ca.pem').replace(/\n.{40}/, '\n')
    writeFileSync(files.path('broken.pem'), broken)
    const locked = ['-----BEGIN ENCRYPTED PRIVATE KEY-----', '-----END ENCRYPTED PRIVATE KEY-----']
    writeFileSync(files.path('locked.key'), locked.join('\nMIIB\n'))
    mkdirSync(files.path('folder.pem'))
  })

  afterAll(() => files?.remove())

  const NO_CERTIFICATE = 'is not a certificate in PEM format'
  const NO_KEY = 'is not a private key in PEM format without a passphrase'

  test.each([
    ['sslrootcert', 'missing.pem', { rootCertificate: 'missing.pem' }, 'cannot be read (ENOENT)'],
    ['sslrootcert', 'folder.pem', { rootCertificate: 'folder.pem' }, 'cannot be read (EISDIR)'],
    ['sslrootcert', 'text.pem', { rootCertificate: 'text.pem' }, NO_CERTIFICATE],
    ['sslrootcert', 'empty.pem', { rootCertificate: 'empty.pem' }, NO_CERTIFICATE],
    ['sslrootcert', 'broken.pem', { rootCertificate: 'broken.pem' }, NO_CERTIFICATE],
    ['sslcert', 'missing.pem', { certificate: 'missing.pem' }, 'cannot be read (ENOENT)'],
    ['sslcert', 'client.key', { certificate: 'client.key' }, NO_CERTIFICATE],
    ['sslkey', 'missing.key', { key: 'missing.key' }, 'cannot be read (ENOENT)'],
    ['sslkey', 'client.pem', { key: 'client.pem' }, NO_KEY],
    ['sslkey', 'locked.key', { key: 'locked.key' }, NO_KEY],
    ['sslkey', 'other.key', { key: 'other.key' }, 'is not the key of the certificate in '],
  ])('%s=%s', (parameter, file, wrong, why) => {
    const paths = {
      rootCertificate: 'ca.pem',
      certificate: 'client.pem',
      key: 'client.key',
      ...wrong,
    }
    const tls = Object.fromEntries(
      Object.entries(paths).map(([name, path]) => [name, files.path(path)]),
    )
    const location = { tls: { verify: 'full', ...tls } } as unknown as PostgresLocation
    const create = () => createClientConfigs(location)
    expect(create).toThrow(UnusableDatabase)
    expect(create).toThrow(`the file "${files.path(file)}" of ${parameter} ${why}`)
  })

  test('and so the service does not start', async () => {
    const path = files.path('missing.pem')
    const DATABASE_URL = `postgres://localhost/users?sslmode=verify-full&sslrootcert=${path}`
    await expect(openTestApp({ env: { DATABASE_URL } })).rejects.toThrow(
      `the file "${path}" of sslrootcert cannot be read (ENOENT)`,
    )
  })
})
