import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** What every key begins with, so that scanners find keys in source code and logs. */
const API_KEY_PREFIX = 'urk_'

/** None of these needs escaping in URLs and shells. With the `_` of the prefix, a double click selects the whole key. */
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

const RANDOM_BYTES = 32

/** How many digits in base 62 hold 256 bits, and how many hold 32. */
const RANDOM_DIGITS = 43
const CHECKSUM_DIGITS = 6

/** The length of every key. */
export const API_KEY_CHARS = API_KEY_PREFIX.length + RANDOM_DIGITS + CHECKSUM_DIGITS

const FORM = /^urk_[0-9A-Za-z]{49}$/

/**
 * Makes a key: the prefix, 256 random bits, and a CRC-32 of both. `randomBytes` is that of `node:crypto`, except in tests.
 */
export function createApiKey(randomBytes: (size: number) => Buffer): string {
  const text = API_KEY_PREFIX + randomDigitsOf(randomBytes(RANDOM_BYTES))
  return text + checksumOf(text)
}

/** Whether a text may be a key: it has the form of one, and its checksum finds no mistake. */
export function isApiKey(text: string): boolean {
  if (!FORM.test(text)) return false
  return checksumOf(text.slice(0, -CHECKSUM_DIGITS)) === text.slice(-CHECKSUM_DIGITS)
}

/** The SHA-256 of a key, under which it is stored: with 256 random bits nothing slower is needed. */
export function hashApiKey(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}

function randomDigitsOf(bytes: Buffer): string {
  const base = BigInt(DIGITS.length)
  let rest = BigInt(`0x${bytes.toString('hex')}`)
  let digits = ''
  while (digits.length < RANDOM_DIGITS) {
    digits = DIGITS[Number(rest % base)] + digits
    rest /= base
  }
  return digits
}

/** Without the big integers of `randomDigitsOf`, which are slower: every request with a key needs it. */
function checksumOf(text: string): string {
  let rest = crc32(text)
  let digits = ''
  while (digits.length < CHECKSUM_DIGITS) {
    digits = DIGITS[rest % DIGITS.length] + digits
    rest = Math.floor(rest / DIGITS.length)
  }
  return digits
}

/** The rule of `isApiKeyName`. Completes the sentence "it may be …". */
export const API_KEY_NAME_RULE =
  '1 to 64 letters, digits and any of . _ -, of which the first is a letter or a digit'

/** Names go into log lines, metrics and shells as they are. */
const NAME = /^[0-9A-Za-z][\w.-]{0,63}$/

/** Whether a key may have this name. Names are not secret, so a key that is given as a name by mistake is refused. */
export function isApiKeyName(text: string): boolean {
  return NAME.test(text) && !isApiKey(text)
}
