import { hash, timingSafeEqual } from 'node:crypto'
import { type Digest, decodeBase64, encodeBase64 } from './digest.ts'

const KEY_BYTES: Readonly<Record<string, number>> = { md5: 16, sha1: 20, sha256: 32, sha512: 64 }

/** The bytes are the key and then the salt, which only schemes with another S have. */
const SCHEME = /^\{(S?)(SHA|SHA256|SHA512|MD5)\}([A-Za-z\d+/]{22,256}={0,2})$/i

const CANONICAL =
  /^\$ldap-(?<name>md5|sha1|sha256|sha512)\$(?<salt>[^$]{0,172})\$(?<key>[^$]{22,86})$/

/** `{SSHA}`, `{SSHA256}`, `{SSHA512}`, `{SHA}`, `{SMD5}`, `{MD5}`: `$ldap-sha1$salt$hash`. */
export function parseRfc2307(text: string): Digest | undefined {
  const { name = '', ...parts } = CANONICAL.exec(text.replace(SCHEME, rewriteScheme))?.groups ?? {}
  const salt = decodeBase64(parts.salt)
  const key = decodeBase64(parts.key)
  if (!salt || !key || key.length !== KEY_BYTES[name]) return undefined
  return {
    text: `$ldap-${name}$${encodeBase64(salt)}$${encodeBase64(key)}`,
    kind: `$ldap-${name}`,
    isAffordable: true,
    verify: async password =>
      timingSafeEqual(hash(name, Buffer.concat([Buffer.from(password), salt]), 'buffer'), key),
  }
}

/** https://www.openldap.org/faq/data/cache/347.html */
function rewriteScheme(text: string, salted: string, scheme: string, base64: string): string {
  const name = scheme.toLowerCase().replace(/^sha$/, 'sha1')
  const bytes = decodeBase64(base64) ?? Buffer.alloc(0)
  const key = bytes.subarray(0, KEY_BYTES[name])
  const salt = bytes.subarray(KEY_BYTES[name])
  const isWhole = salted === '' ? salt.length === 0 : salt.length > 0
  return isWhole ? `$ldap-${name}$${encodeBase64(salt)}$${encodeBase64(key)}` : text
}
