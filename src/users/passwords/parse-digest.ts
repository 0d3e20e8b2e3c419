import { parseArgon2 } from './digests/argon2.ts'
import { parseBcrypt } from './digests/bcrypt.ts'
import { parseCrypt3, parsePhpass } from './digests/crypt.ts'
import type { Digest } from './digests/digest.ts'
import { parsePbkdf2 } from './digests/pbkdf2.ts'
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

/** `{argon2@…}` of Spring, `{BLF-CRYPT}` of Dovecot and all others, and the `3|` of Nextcloud. What follows names its kind. */
const WRAPPER = /^(?:\{[^{}\s]{1,64}\}|[123]\|)/

/** What only digests begin with: of known kinds, which may be damaged, and then of all others. */
const KNOWN_FORM =
  /^(?:\{[^{}\s]{1,64}\}|[123]\|)?(?:(?:\$argon2(?:id|i|d)\$|argon2\$argon2|bcrypt(?:_sha256)?\$\$2|\$2[abxy]\$\d\d\$|\$(?:bcrypt_sha256|wp)\$2|\$pbkdf2(?:-sha\d+)?\$|pbkdf2[_:]sha\d|:pbkdf2:|\$(?:fire|fb)?scrypt\$|scrypt:\d+:|AQAAAA[AEI]A\S{4}AAAA|\$[56]\$\S{43}|\$[PH]\$\S{31})\S*$|\{S?(?:SHA|SHA256|SHA512|MD5)\}(?![\da-f]+$)[A-Za-z\d+/]{16})/i
const OTHER_FORM =
  /^(?:\$[\w.,=@-]{1,40}\$\S*|\{[^{}\s]{1,64}\}\S+|\{noop\}.*|\d\|\$\S*|:(?:A|B|argon2|bcrypt|pbkdf2\S*):\S+|\*[\da-f]{40}|scrypt\$[^$\s]+\$\d+\$\S*|(?:md5|sha1)\$[^$\s]*\$[\da-f]{32,})$/is

/** A digest in any spelling of any known system. Undefined for any other text. */
export function parseDigest(text: string): Digest | undefined {
  for (const spelled of new Set([text, text.replace(WRAPPER, '')])) {
    for (const parse of FAMILIES) {
      const digest = parse(spelled)
      if (digest !== undefined) return digest
    }
  }
  return undefined
}

/** The canonical form of a stored digest, which may be in another spelling. */
export function canonicalOf(digest: string): string {
  return parseDigest(digest)?.text ?? digest
}

/** How long MD5, SHA-1, SHA-256 and SHA-512 are in hexadecimal digits, alone or with a salt after a colon. */
const BARE_FORM = /^(?:[\da-f]{32}|[\da-f]{40}|[\da-f]{64}|[\da-f]{128})(?::|$)/i

/**
 * Whether a text is, or was meant to be, a digest rather than a password: of a `known` kind, of one of the `other` kinds that
 * cannot be verified, or perhaps a `bare` one of MD5 or SHA, without anything that says so.
 */
export function digestLikeness(text: string): 'known' | 'other' | 'bare' | undefined {
  if (KNOWN_FORM.test(text) || parseDigest(text) !== undefined) return 'known'
  if (OTHER_FORM.test(text)) return 'other'
  return BARE_FORM.test(text) ? 'bare' : undefined
}

/** Whether a digest is at least as hard to guess as one of this service. */
export function isCurrentDigest(text: string): boolean {
  return parseDigest(text)?.isCurrent === true
}
