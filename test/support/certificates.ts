import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Whether tests can make certificates. If not, the reason has been printed. */
export const canMakeCertificates = spawnSync('openssl', ['version']).status === 0
if (!canMakeCertificates) console.log('tests of TLS are skipped: openssl is not installed')

export type Certificates = ReturnType<typeof makeCertificates>

interface CertificateOptions {
  /** The name of the authority. */
  readonly by: string
  /** The name of the key. */
  readonly key: string
  readonly commonName: string
  /** Such as `DNS:localhost` or `IP:127.0.0.1`. */
  readonly altNames?: string
}

/** Certificates for tests, in PEM files of one folder. */
export function makeCertificates() {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-certificates-'))
  const path = (file: string) => join(folder, file)
  const openssl = (...args: string[]) => {
    execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' })
  }
  return {
    /** Of a file, which need not exist. */
    path,
    text: (file: string) => readFileSync(path(file), 'utf8'),
    /** Makes `NAME.key`. */
    makeKey: (name: string) => {
      openssl('genpkey', '-algorithm', 'RSA', '-out', `${name}.key`)
    },
    /** Makes `NAME.pem` for `NAME.key`, which signs itself. */
    makeAuthority: (name: string) => {
      const request = ['-x509', '-new', '-key', `${name}.key`, '-subj', `/CN=${name}`]
      openssl('req', ...request, '-days', '2', '-out', `${name}.pem`)
    },
    /** Makes `NAME.pem`. */
    makeCertificate: (name: string, { by, key, commonName, altNames }: CertificateOptions) => {
      const request = `${name}.csr`
      openssl('req', '-new', '-key', `${key}.key`, '-subj', `/CN=${commonName}`, '-out', request)
      writeFileSync(path('extensions'), altNames === undefined ? '' : `subjectAltName=${altNames}`)
      const signed = ['-CA', `${by}.pem`, '-CAkey', `${by}.key`, '-CAcreateserial', '-days', '2']
      const extensions = ['-extfile', 'extensions']
      openssl('x509', '-req', '-in', request, ...signed, ...extensions, '-out', `${name}.pem`)
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
