import { parseArgon2 } from './digests/argon2.ts'
import { parseBcrypt } from './digests/bcrypt.ts'
import { parseCrypt3 } from './digests/crypt3.ts'
import type { Digest } from './digests/digest.ts'
import { parsePbkdf2 } from './digests/pbkdf2.ts'
import { parsePhpass } from './digests/phpass.ts'
import { parseRfc2307 } from './digests/rfc2307.ts'
import { parseScrypt } from './digests/scrypt.ts'

const FAMILIES = [
  parseArgon2,
  parseBcrypt,
  parsePbkdf2,
  parseScrypt,
  parsePhpass,
  parseCrypt3,
  parseRfc2307,
]

/** Nobody begins a password so, and a digest that is damaged still does. The shorter beginnings are left out. */
const BEGINNING =
  /^(?:\$argon2(?:id|i|d)\$|argon2\$argon2|bcrypt(?:_sha256)?\$\$2|\$(?:bcrypt_sha256|wp)\$2|\$pbkdf2(?:-sha\d+)?\$|pbkdf2[_:]sha\d|\$(?:fire)?scrypt\$|scrypt(?::|\$[^$]+\$)\d+[$:]|(?:md5|sha1)\$[^$]*\$[\da-f]{32}|\{(?:bcrypt|BLF-CRYPT|CRYPT)\}\$|\{S?(?:SHA|SHA256|SHA512|MD5)\}[A-Za-z\d+/]{16})/i

/** A digest in any spelling of any known system. Undefined for any other text. */
export function parseDigest(text: string): Digest | undefined {
  for (const parse of FAMILIES) {
    const digest = parse(text)
    if (digest !== undefined) return digest
  }
  return undefined
}

/** The canonical form of a stored digest, which may be in another spelling. */
export function canonicalOf(digest: string): string {
  return parseDigest(digest)?.text ?? digest
}

/** Whether a text is, or was meant to be, a digest rather than a password. */
export function isDigestLike(text: string): boolean {
  return BEGINNING.test(text) || parseDigest(text) !== undefined
}

/** Whether a digest is at least as hard to guess as one of this service. */
export function isCurrentDigest(text: string): boolean {
  return parseDigest(text)?.isCurrent === true
}
