import { pbkdf2, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { type Digest, decodeBase64, encodeBase64 } from './digest.ts'

const deriveKey = promisify(pbkdf2)

/** How many bytes of a key each hash function makes with one run of the iterations. */
const BLOCK_BYTES: Readonly<Record<string, number>> = { sha1: 20, sha256: 32, sha512: 64 }

/** In all runs together. They take up to three seconds. */
const MAX_ITERATIONS = 5_000_000

/** PHC, and passlib without `i=`. Without a name it is SHA-1; `l` is the length of the key. */
const PHC =
  /^\$pbkdf2(?:-(?<name>sha1|sha256|sha512))?\$(?<mark>i=)?(?<iterations>[1-9]\d{0,9})(?:,l=(?<length>\d{1,3}))?\$(?<salt>[^$]{1,172})\$(?<key>[^$]{22,172})$/

// In these the salt is text.
const DJANGO = /^pbkdf2_(sha1|sha256|sha512)\$(\d+)\$([^$]{1,128})\$([^$]+)$/
const WERKZEUG = /^pbkdf2:(sha1|sha256|sha512):(\d+)\$([^$]{1,128})\$((?:[\da-f]{2})+)$/

/** With the length of the key: https://www.mediawiki.org/wiki/Manual:User_table#user_password */
const MEDIAWIKI =
  /^:pbkdf2:(sha1|sha256|sha512):(\d+):(\d+):([A-Za-z\d+/]{1,172}={0,2}):([A-Za-z\d+/]{1,172}={0,2})$/

/** Version 3 begins with a byte of 1 and zeros, so with `AQ`; version 2 with a zero byte and the salt, so with `A` and any of `A` to `P`. */
const ASP_NET = /^A[A-Q][A-Za-z\d+/]{50,300}={0,2}$/

/**
 * PHC `$pbkdf2-sha256$i=600000$salt$hash`, also as passlib writes it; Django
 * `pbkdf2_sha256$600000$…`; Werkzeug `pbkdf2:sha256:600000$…`; MediaWiki `:pbkdf2:sha512:30000:64:…`; ASP.NET Identity 2
 * and 3, which are bare Base64. passlib, Django and Werkzeug keep all that the hash function gives.
 */
export function parsePbkdf2(text: string): Digest | undefined {
  const phc = text
    .replace(DJANGO, (_, name, iterations, salt, key) =>
      writePhc(name, iterations, Buffer.from(salt), key),
    )
    .replace(WERKZEUG, (_, name, iterations, salt, key) =>
      writePhc(name, iterations, Buffer.from(salt), encodeBase64(Buffer.from(key, 'hex'))),
    )
    .replace(MEDIAWIKI, rewriteMediaWiki)
    .replace(ASP_NET, rewriteAspNet)
  const { name = 'sha1', mark, ...parts } = PHC.exec(phc)?.groups ?? {}
  const iterations = Number(parts.iterations)
  const salt = decodeBase64(parts.salt)
  const key = decodeBase64(parts.key)
  if (!salt?.length || !key?.length) return undefined
  if (parts.length !== undefined && key.length !== Number(parts.length)) return undefined
  if (mark === undefined && key.length !== BLOCK_BYTES[name]) return undefined
  const allIterations = iterations * Math.ceil(key.length / (BLOCK_BYTES[name] ?? 1))
  return {
    text: writePhc(name, `i=${iterations}`, salt, encodeBase64(key)),
    kind: `$pbkdf2-${name}$i=${allIterations}`,
    isAffordable: allIterations <= MAX_ITERATIONS,
    verify: async password => {
      // To HMAC, `a` and `a\0` are the same password: it fills a short key with zero bytes.
      if (password.endsWith('\0')) return false
      return timingSafeEqual(await deriveKey(password, salt, iterations, key.length, name), key)
    },
  }
}

/** `costs` are the iterations, after `i=` unless the key has to be whole. */
function writePhc(name: string, costs: string, salt: Buffer, key: string): string {
  return `$pbkdf2-${name}$${costs}$${encodeBase64(salt)}$${key}`
}

function rewriteMediaWiki(text: string, ...parts: string[]): string {
  const [name = '', iterations, length, salt = '', key = ''] = parts
  const isWhole = decodeBase64(key)?.length === Number(length)
  return isWhole ? `$pbkdf2-${name}$i=${iterations}$${salt}$${key}` : text
}

/** https://github.com/dotnet/aspnetcore: src/Identity/Extensions.Core/src/PasswordHasher.cs */
function rewriteAspNet(text: string): string {
  const bytes = Buffer.from(text, 'base64')
  if (bytes[0] === 0) {
    const key = bytes.length === 49 ? encodeBase64(bytes.subarray(17)) : ''
    return writePhc('sha1', 'i=1000', bytes.subarray(1, 17), key)
  }
  const name = ['sha1', 'sha256', 'sha512'][bytes.readUInt32BE(1)] ?? ''
  const keyAt = 13 + bytes.readUInt32BE(9)
  // Identity writes 32 bytes. Its tests have 64 too.
  const key = (bytes.length - keyAt) % 32 === 0 ? encodeBase64(bytes.subarray(keyAt)) : ''
  return writePhc(name, `i=${bytes.readUInt32BE(5)}`, bytes.subarray(13, keyAt), key)
}
