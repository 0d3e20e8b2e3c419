import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { PostgresTls } from '../../config/postgres-url.ts'
import { UnusableDatabase } from '../unusable-database.ts'

/** The certificates of connections, from their files. Throws `UnusableDatabase` with the name of a file that cannot be used. */
export function readTlsContext({ rootCertificate, certificate, key }: PostgresTls): SecureContext {
  const ca = rootCertificate && readCertificate('sslrootcert', rootCertificate)
  const client =
    certificate === undefined || key === undefined ? {} : readClientCertificate(certificate, key)
  return createSecureContext({ ...(ca && { ca }), ...client })
}

function readCertificate(parameter: string, path: string): string {
  const text = readFile(parameter, path)
  // `createSecureContext` ignores a root certificate that it cannot read.
  unlessUnusable(parameter, path, 'is not a certificate in PEM format', () => {
    new X509Certificate(text)
  })
  return text
}

function readClientCertificate(certificatePath: string, keyPath: string) {
  const cert = readCertificate('sslcert', certificatePath)
  const key = readFile('sslkey', keyPath)
  const privateKey = unlessUnusable(
    'sslkey',
    keyPath,
    'is not a private key in PEM format without a passphrase',
    () => createPrivateKey(key),
  )
  if (!new X509Certificate(cert).checkPrivateKey(privateKey)) {
    throw new UnusableDatabase(
      `the file ${JSON.stringify(keyPath)} of sslkey is not the key of the certificate in ${JSON.stringify(certificatePath)}`,
    )
  }
  return { cert, key }
}

function readFile(parameter: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new UnusableDatabase(
      `the file ${JSON.stringify(path)} of ${parameter} cannot be read (${code})`,
      { cause },
    )
  }
}

function unlessUnusable<T>(parameter: string, path: string, why: string, read: () => T): T {
  try {
    return read()
  } catch {
    // Without its cause, because that may show some of the key.
    throw new UnusableDatabase(`the file ${JSON.stringify(path)} of ${parameter} ${why}`)
  }
}
