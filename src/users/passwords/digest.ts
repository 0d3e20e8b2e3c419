import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { loadNativePackage } from '../../native-package.ts'

const { hash: hashArgon2, verify: verifyArgon2 } =
  loadNativePackage<typeof import('@node-rs/argon2')>('@node-rs/argon2')
const { verify: verifyBcrypt } =
  loadNativePackage<typeof import('@node-rs/bcrypt')>('@node-rs/bcrypt')

const deriveKey = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt)

/** Whether a digest was made from these bytes of a password. */
type Verify = (password: string) => Promise<boolean>

/** For Argon2id, the default of the library. From the OWASP Password Storage Cheat Sheet: 19 MiB, 2 passes. */
const CURRENT = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** The sizes that the library uses. */
const SALT_BYTES = 16
const HASH_BYTES = 32

/**
 * Memory that one verification may take. Several run at once, so without a limit an imported digest could take all memory
 * of the machine.
 */
const MAX_MEMORY_KIB = 256 * 1024

/**
 * Memory that scrypt may fill in all lanes together. It fills one lane after another, and this much takes about four
 * seconds, like the highest cost of bcrypt.
 */
const MAX_SCRYPT_KIB = 4 * MAX_MEMORY_KIB

/** Up to 20 passes and 16 lanes. https://github.com/P-H-C/phc-string-format/blob/master/phc-sf-spec.md; the version is optional. */
const ARGON2 =
  /^\$argon2(?:id|i|d)\$(?:v=(?:16|19)\$)?m=(?<memoryKib>[1-9]\d{0,6}),t=(?<passes>[1-9]|1\d|20),p=(?<lanes>[1-9]|1[0-6])\$(?<salt>[A-Za-z\d+/]{11,64})\$(?<hash>[A-Za-z\d+/]{16,86})$/

/** A cost of 4 to 16. Each step doubles the time: 16 takes about four seconds. */
const BCRYPT = /^\$2[aby]\$(?:0[4-9]|1[0-6])\$[./\dA-Za-z]{53}$/

/** bcrypt ignores the bytes of a password after these. */
const BCRYPT_BYTES = 72

/** Up to 16 lanes. `ln` is the binary logarithm of N: https://www.rfc-editor.org/rfc/rfc7914#section-2 */
const SCRYPT =
  /^\$scrypt\$ln=(?<logCost>[1-9]\d?),r=(?<blocks>[1-9]\d?),p=(?<lanes>[1-9]|1[0-6])\$(?<salt>[A-Za-z\d+/]{11,86})\$(?<hash>[A-Za-z\d+/]{22,172})$/

/** A new digest of a password: Argon2id, in PHC form. */
export function makeDigest(password: string): Promise<string> {
  return hashArgon2(password, CURRENT)
}

/** A digest that matches no password, for users without one. Verifying it costs as much as verifying a new digest. */
export const DECOY = `$argon2id$v=19$m=19456,t=2,p=1$${randomBase64(SALT_BYTES)}$${randomBase64(HASH_BYTES)}`

/** Whether passwords can be verified against this text: a digest of Argon2, bcrypt or scrypt within the limits above. */
export function isPasswordDigest(text: string): boolean {
  return verifierOf(text) !== undefined
}

/**
 * Whether a system with this digest lets `password` in: its first `judgedBytesOf` bytes are right. False for a text that is not
 * a password digest.
 */
export async function verifyDigest(digest: string, password: string): Promise<boolean> {
  return (await verifierOf(digest)?.(password)) ?? false
}

/**
 * Whether a digest is Argon2id, and at least as hard to guess as one of this service. More memory makes up for fewer passes,
 * but not the other way around.
 */
export function isCurrentDigest(digest: string): boolean {
  const { memoryKib, passes, salt = '', hash = '' } = ARGON2.exec(digest)?.groups ?? {}
  const { memoryCost, timeCost } = CURRENT
  return (
    digest.startsWith('$argon2id$v=19$') &&
    Number(memoryKib) >= memoryCost &&
    Number(memoryKib) * Number(passes) >= memoryCost * timeCost &&
    bytesOf(salt).length >= SALT_BYTES &&
    bytesOf(hash).length >= HASH_BYTES
  )
}

/** How many bytes of a password make a difference to a digest. */
export function judgedBytesOf(digest: string): number {
  return BCRYPT.test(digest) ? BCRYPT_BYTES : Infinity
}

/** The part of a digest that determines how long its verification takes: all before the salt. */
export function kindOfDigest(digest: string): string {
  return digest
    .split('$')
    .slice(0, BCRYPT.test(digest) ? 3 : -2)
    .join('$')
}

function verifierOf(digest: string): Verify | undefined {
  const argon2 = ARGON2.exec(digest)?.groups
  if (argon2 !== undefined) {
    const memoryKib = Number(argon2.memoryKib)
    const isAffordable = memoryKib >= 8 * Number(argon2.lanes) && memoryKib <= MAX_MEMORY_KIB
    if (!isAffordable || !isBase64(argon2.salt) || !isBase64(argon2.hash)) return undefined
    return password => verifyArgon2(digest, password)
  }
  if (BCRYPT.test(digest)) {
    // To bcrypt, `a` and `a\0a` are the same password: it repeats a short one, with a zero byte after each.
    return async password => {
      const judged = Buffer.from(password).subarray(0, BCRYPT_BYTES)
      return !judged.includes(0) && verifyBcrypt(judged, digest)
    }
  }
  const groups = SCRYPT.exec(digest)?.groups
  return groups && scryptVerifier(groups)
}

function scryptVerifier(groups: Readonly<Record<string, string>>): Verify | undefined {
  const { salt = '', hash = '' } = groups
  const logCost = Number(groups.logCost)
  const blocks = Number(groups.blocks)
  const lanes = Number(groups.lanes)
  const memoryBytes = 128 * blocks * 2 ** logCost
  const isAffordable =
    // RFC 7914 2: N must be less than 2 to the power of 128 * r / 8.
    logCost < 16 * blocks &&
    memoryBytes <= MAX_MEMORY_KIB * 1024 &&
    lanes * memoryBytes <= MAX_SCRYPT_KIB * 1024 &&
    isBase64(salt) &&
    isBase64(hash)
  if (!isAffordable) return undefined
  // The library needs a little more than the blocks themselves.
  const options = { N: 2 ** logCost, r: blocks, p: lanes, maxmem: 2 * memoryBytes + 2 ** 20 }
  const expected = bytesOf(hash)
  return async password => {
    // To scrypt, `a` and `a\0` are the same password: HMAC fills a short key with zero bytes.
    if (password.endsWith('\0')) return false
    const key = await deriveKey(password, bytesOf(salt), expected.length, options)
    return timingSafeEqual(key, expected)
  }
}

function randomBase64(bytes: number): string {
  return randomBytes(bytes).toString('base64').replaceAll('=', '')
}

/** Whether a text is valid Base64: some lengths and some last characters are impossible. */
function isBase64(text = ''): boolean {
  return bytesOf(text).toString('base64').replaceAll('=', '') === text
}

function bytesOf(base64: string): Buffer {
  return Buffer.from(base64, 'base64')
}
