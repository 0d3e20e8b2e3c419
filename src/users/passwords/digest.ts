import { scrypt, timingSafeEqual } from 'node:crypto'
import { loadNativePackage } from '../../native-package.ts'

const { verify: verifyArgon2 } =
  loadNativePackage<typeof import('@node-rs/argon2')>('@node-rs/argon2')
const { verify: verifyBcrypt } =
  loadNativePackage<typeof import('@node-rs/bcrypt')>('@node-rs/bcrypt')

/** Whether a digest was made from these bytes of a password. */
type Verify = (password: string) => Promise<boolean>

/**
 * Memory that one verification may take. Several run at once, so without a limit an imported digest could take all memory
 * of the machine.
 */
const MAX_MEMORY_KIB = 256 * 1024

const MAX_PASSES = 20

const MAX_LANES = 16

/**
 * Memory that scrypt may fill in all lanes together. It fills one lane after another, and this much takes about four
 * seconds, like the highest cost of bcrypt.
 */
const MAX_SCRYPT_KIB = 4 * MAX_MEMORY_KIB

/** Each step doubles the time: 16 takes about four seconds. */
const MAX_BCRYPT_COST = 16

/** https://github.com/P-H-C/phc-string-format/blob/master/phc-sf-spec.md; the version is optional. */
const ARGON2 =
  /^\$argon2(?:id|i|d)\$(?:v=(?:16|19)\$)?m=(?<memoryKib>[1-9]\d{0,6}),t=(?<passes>[1-9]\d{0,2}),p=(?<lanes>[1-9]\d{0,2})\$(?<salt>[A-Za-z\d+/]{11,64})\$(?<hash>[A-Za-z\d+/]{16,86})$/

const BCRYPT = /^\$2[aby]\$(?<cost>\d\d)\$[./\dA-Za-z]{53}$/

/** `ln` is the binary logarithm of N: https://www.rfc-editor.org/rfc/rfc7914#section-2 */
const SCRYPT =
  /^\$scrypt\$ln=(?<logCost>\d{1,2}),r=(?<blocks>\d{1,2}),p=(?<lanes>\d{1,2})\$(?<salt>[A-Za-z\d+/]{11,86})\$(?<hash>[A-Za-z\d+/]{22,172})$/

/** Whether passwords can be verified against this text: a digest of Argon2, bcrypt or scrypt within the limits above. */
export function isPasswordDigest(text: string): boolean {
  return verifierOf(text) !== undefined
}

/** Whether `digest` was made from exactly this `password`. False for a text that is not a password digest. */
export async function verifyDigest(digest: string, password: string): Promise<boolean> {
  return (await verifierOf(digest)?.(password)) ?? false
}

/** The parameters of an Argon2id digest, in KiB and bytes; `undefined` for any other digest, and for an older version. */
export function argon2idParameters(digest: string) {
  const { memoryKib, passes, salt = '', hash = '' } = groupsOf(ARGON2, digest)
  if (!digest.startsWith('$argon2id$v=19$') || memoryKib === undefined) return undefined
  return {
    memoryKib: Number(memoryKib),
    passes: Number(passes),
    saltBytes: Buffer.from(salt, 'base64').length,
    hashBytes: Buffer.from(hash, 'base64').length,
  }
}

/** What of a digest says how long its verification takes: all before the salt. */
export function kindOfDigest(digest: string): string {
  if (BCRYPT.test(digest)) return digest.slice(0, '$2b$12'.length)
  return digest.slice(0, digest.lastIndexOf('$', digest.lastIndexOf('$') - 1))
}

function verifierOf(digest: string): Verify | undefined {
  return argon2(digest) ?? bcrypt(digest) ?? scryptOfPhc(digest)
}

function argon2(digest: string): Verify | undefined {
  const { memoryKib, passes, lanes, salt = '', hash = '' } = groupsOf(ARGON2, digest)
  const isAffordable =
    isWithin(lanes, { max: MAX_LANES }) &&
    isWithin(passes, { max: MAX_PASSES }) &&
    isWithin(memoryKib, { min: 8 * Number(lanes), max: MAX_MEMORY_KIB }) &&
    isBase64(salt) &&
    isBase64(hash)
  return isAffordable ? password => verifyArgon2(digest, password) : undefined
}

function bcrypt(digest: string): Verify | undefined {
  const { cost } = groupsOf(BCRYPT, digest)
  const isAffordable = isWithin(cost, { min: 4, max: MAX_BCRYPT_COST })
  if (!isAffordable) return undefined
  // To bcrypt, `a` and `a\0a` are the same password: it repeats a short one, with a zero byte after each.
  return async password => (await verifyBcrypt(password, digest)) && !password.includes('\0')
}

function scryptOfPhc(digest: string): Verify | undefined {
  const groups = groupsOf(SCRYPT, digest)
  const { salt = '', hash = '' } = groups
  const logCost = Number(groups.logCost)
  const blocks = Number(groups.blocks)
  const lanes = Number(groups.lanes)
  const memoryBytes = 128 * blocks * 2 ** logCost
  const isAffordable =
    logCost >= 1 &&
    blocks >= 1 &&
    // RFC 7914 2: N must be less than 2 to the power of 128 * r / 8.
    logCost < 16 * blocks &&
    lanes >= 1 &&
    lanes <= MAX_LANES &&
    memoryBytes <= MAX_MEMORY_KIB * 1024 &&
    lanes * memoryBytes <= MAX_SCRYPT_KIB * 1024 &&
    isBase64(salt) &&
    isBase64(hash)
  if (!isAffordable) return undefined
  // The library needs a little more than the blocks themselves.
  const options = { N: 2 ** logCost, r: blocks, p: lanes, maxmem: 2 * memoryBytes + 2 ** 20 }
  const expected = Buffer.from(hash, 'base64')
  return async password => {
    // To scrypt, `a` and `a\0` are the same password: HMAC fills a short key with zero bytes.
    if (password.endsWith('\0')) return false
    return new Promise((resolve, reject) => {
      scrypt(password, Buffer.from(salt, 'base64'), expected.length, options, (error, key) => {
        if (error === null) resolve(timingSafeEqual(key, expected))
        else reject(error)
      })
    })
  }
}

/** The named groups of a match; empty if the text does not match. */
function groupsOf(expression: RegExp, text: string): Readonly<Record<string, string>> {
  return expression.exec(text)?.groups ?? {}
}

function isWithin(
  text: string | undefined,
  { min = 1, max }: { readonly min?: number; readonly max: number },
): boolean {
  const value = Number(text)
  return value >= min && value <= max
}

/** Whether a text is valid Base64: some lengths and some last characters are impossible. */
function isBase64(text: string): boolean {
  return Buffer.from(text, 'base64').toString('base64').replaceAll('=', '') === text
}
