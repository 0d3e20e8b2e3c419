import { scrypt, timingSafeEqual } from 'node:crypto'
import { verify as verifyArgon2 } from '@node-rs/argon2'
import { verify as verifyBcrypt } from '@node-rs/bcrypt'

/** Whether a password, as its bytes are, made a digest. */
type Verify = (password: string) => Promise<boolean>

/**
 * One verification may take as much memory as this and no more, because several run at once: half the memory of a
 * small machine would otherwise be at the command of who imports digests.
 */
const MAX_MEMORY_KIB = 256 * 1024

const MAX_PASSES = 20

const MAX_LANES = 16

/** A step more doubles the time: 16 takes some four seconds. */
const MAX_BCRYPT_COST = 16

/** https://github.com/P-H-C/phc-string-format/blob/master/phc-sf-spec.md; the version may be left out. */
const ARGON2 =
  /^\$argon2(?:id|i|d)\$(?:v=(?:16|19)\$)?m=([1-9]\d{0,6}),t=([1-9]\d{0,2}),p=([1-9]\d{0,2})\$([A-Za-z\d+/]{11,64})\$([A-Za-z\d+/]{16,86})$/

/** As every library but those of PHC writes it. */
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./\dA-Za-z]{53}$/

/** `r` is the cost. The version 98 stands for the `b` of `$2b$`. */
const BCRYPT_PHC = /^\$bcrypt\$v=98\$r=(\d{1,2})\$([\dA-Za-z+/]{22})\$([\dA-Za-z+/]{31})$/

/** `ln` is the binary logarithm of N: https://www.rfc-editor.org/rfc/rfc7914#section-2 */
const SCRYPT =
  /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z\d+/]{11,86})\$([A-Za-z\d+/]{22,172})$/

/** Whether a password can be verified against this text: a digest of Argon2, bcrypt or scrypt at a bearable cost. */
export function isPasswordDigest(text: string): boolean {
  return verifierOf(text) !== undefined
}

/** Whether `digest` was made of `password`, which is taken as it is. Not where `digest` is none that is known. */
export async function verifyDigest(digest: string, password: string): Promise<boolean> {
  return (await verifierOf(digest)?.(password)) ?? false
}

function verifierOf(digest: string): Verify | undefined {
  return argon2(digest) ?? bcrypt(digest) ?? bcryptOfPhc(digest) ?? scryptOfPhc(digest)
}

function argon2(digest: string): Verify | undefined {
  const match = ARGON2.exec(digest)
  const [, memoryKib, passes, lanes] = numbersOf(match)
  if (memoryKib === undefined || passes === undefined || lanes === undefined) return undefined
  const isBearable =
    lanes >= 1 &&
    lanes <= MAX_LANES &&
    passes >= 1 &&
    passes <= MAX_PASSES &&
    memoryKib >= 8 * lanes &&
    memoryKib <= MAX_MEMORY_KIB &&
    (match?.slice(4).every(isBase64) ?? false)
  return isBearable ? password => verifyArgon2(digest, password) : undefined
}

function bcrypt(digest: string): Verify | undefined {
  const [, cost] = numbersOf(BCRYPT.exec(digest))
  const isBearable = cost !== undefined && cost >= 4 && cost <= MAX_BCRYPT_COST
  return isBearable ? password => verifyBcrypt(password, digest) : undefined
}

function bcryptOfPhc(digest: string): Verify | undefined {
  const [, cost = '', salt = '', hash = ''] = BCRYPT_PHC.exec(digest) ?? []
  return bcrypt(`$2b$${cost.padStart(2, '0')}$${inBcryptAlphabet(salt + hash)}`)
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const BCRYPT_BASE64 = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** Both put six bits into a character in the same order, and differ in which character. */
function inBcryptAlphabet(base64: string): string {
  return Array.from(base64, char => BCRYPT_BASE64[BASE64.indexOf(char)]).join('')
}

function scryptOfPhc(digest: string): Verify | undefined {
  const match = SCRYPT.exec(digest)
  const [, logCost = 0, blocks = 0, lanes = 0] = numbersOf(match)
  const [, , , , salt = '', hash = ''] = match ?? []
  const memoryBytes = 128 * blocks * 2 ** logCost
  const isBearable =
    logCost >= 1 &&
    blocks >= 1 &&
    // N is less than 2 to the 128 * r / 8.
    logCost < 16 * blocks &&
    lanes >= 1 &&
    lanes <= MAX_LANES &&
    memoryBytes <= MAX_MEMORY_KIB * 1024 &&
    [salt, hash].every(isBase64)
  if (!isBearable) return undefined
  // The library counts a little more than the blocks themselves.
  const options = { N: 2 ** logCost, r: blocks, p: lanes, maxmem: 2 * memoryBytes + 2 ** 20 }
  const expected = Buffer.from(hash, 'base64')
  return password =>
    new Promise((resolve, reject) => {
      scrypt(password, Buffer.from(salt, 'base64'), expected.length, options, (error, key) => {
        if (error === null) resolve(timingSafeEqual(key, expected))
        else reject(error)
      })
    })
}

/** Whether there are bytes that are written so: not every number of characters is possible, nor every last one. */
function isBase64(text: string): boolean {
  return Buffer.from(text, 'base64').toString('base64').replaceAll('=', '') === text
}

function numbersOf(match: RegExpExecArray | null): readonly number[] {
  return match?.map(Number) ?? []
}
