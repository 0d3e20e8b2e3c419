import { createHmac, hash } from 'node:crypto'
import { loadNativePackage } from '../../../platform/native-package.ts'
import type { Digest } from './digest.ts'

const { verify } = loadNativePackage<typeof import('@node-rs/bcrypt')>('@node-rs/bcrypt')

/** bcrypt ignores the bytes of a password after these, so a password of this length may be the beginning of a longer one. */
const JUDGED_BYTES = 72

/** Each step doubles the time: 16 takes about four seconds. */
const COSTS = { min: 4, max: 16, highest: 31 }

const DJANGO = /^bcrypt\$(?=\$2)/

const SPELLING =
  /^(?:(?<wordpress>\$wp)|(?<django>bcrypt_sha256\$|\$bcrypt_sha256))?\$2[aby]\$(?<cost>\d\d)\$(?<salt>[./\dA-Za-z]{22})(?<key>[./\dA-Za-z]{31})$/

const DIGITS = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/**
 * `$2b$12$…`, also as `$2a$` and `$2y$`, and behind Django's `bcrypt$`. Of a hash of the password: WordPress `$wp$2y$10$…`, and Django
 * `bcrypt_sha256$$2b$12$…`, canonical `$bcrypt_sha256$2b$12$…`.
 */
export function parseBcrypt(text: string): Digest | undefined {
  const groups = SPELLING.exec(text.replace(DJANGO, ''))?.groups
  const cost = Number(groups?.cost)
  if (!groups || cost < COSTS.min || cost > COSTS.highest) return undefined
  const { wordpress, django, salt = '', key = '' } = groups
  const plain = `$2b$${groups.cost}$${clearBits(salt, 4)}${clearBits(key, 2)}`
  const digest = { kind: `$2b$${cost}`, isAffordable: cost <= COSTS.max }
  if (wordpress !== undefined) {
    // https://developer.wordpress.org/reference/functions/wp_check_password/
    const prehash = (password: string) => createHmac('sha384', 'wp-sha384').update(password)
    const check = (password: string) => verify(prehash(password).digest('base64'), plain)
    return { ...digest, text: plain.replace('$2b', '$wp$2y'), verify: check }
  }
  if (django !== undefined) {
    const check = (password: string) => verify(hash('sha256', password), plain)
    return { ...digest, text: `$bcrypt_sha256${plain}`, verify: check }
  }
  return {
    ...digest,
    text: plain,
    judgedBytes: JUDGED_BYTES,
    verify: async password => {
      // To bcrypt, `a` and `a\0a` are the same: it repeats a short password, each with a zero byte.
      const judged = Buffer.from(password).subarray(0, JUDGED_BYTES)
      return !judged.includes(0) && verify(judged, plain)
    },
  }
}

/** Some systems set the last bits, which say nothing. To the library they would be a difference. */
function clearBits(text: string, count: number): string {
  const last = DIGITS.indexOf(text.slice(-1))
  return text.slice(0, -1) + DIGITS[(last >> count) << count]
}
