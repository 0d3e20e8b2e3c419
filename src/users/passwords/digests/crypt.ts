/** What crypt(3) and phpass make: many rounds of a fast hash, written in the digits of crypt(3). */

import { hash, timingSafeEqual } from 'node:crypto'
import { nextTurn } from '../../../platform/timers.ts'
import type { Digest } from './digest.ts'

const DEFAULT_ROUNDS = 5000

/** They take about two seconds. */
const MAX_ROUNDS = 1_000_000

/** The longest that libxcrypt takes. Longer ones would make each round slower. */
const MAX_PASSWORD_BYTES = 511

const CRYPT3 =
  /^\$(?<id>[56])\$(?:rounds=(?<rounds>[1-9]\d{3,8})\$)?(?<salt>[!-#%-9;-~]{0,16})\$(?<key>[./\dA-Za-z]{43,86})$/

/** How the bytes are ordered: of each three, one of each third, the last first. */
const SHA_256 = { name: 'sha256', third: 10, step: 21, key: /^.{42}[./\dA-D]$/ }
const SHA_512 = { name: 'sha512', third: 21, step: 22, key: /^.{85}[./01]$/ }

type Kind = typeof SHA_256

/** `$5$…` and `$6$…` of crypt(3). Without `rounds=` there are 5000. */
export function parseCrypt3(text: string): Digest | undefined {
  const { id, salt = '', key = '', ...parts } = CRYPT3.exec(text)?.groups ?? {}
  const kind = id === '5' ? SHA_256 : SHA_512
  if (id === undefined || !kind.key.test(key)) return undefined
  const rounds = Number(parts.rounds ?? DEFAULT_ROUNDS)
  const costs = rounds === DEFAULT_ROUNDS ? `$${id}$` : `$${id}$rounds=${rounds}$`
  return {
    text: `${costs}${salt}$${key}`,
    kind: costs,
    isAffordable: rounds <= MAX_ROUNDS,
    verify: async password => {
      const secret = Buffer.from(password)
      if (secret.length > MAX_PASSWORD_BYTES) return false
      const computed = await computeKey(secret, { kind, rounds, salt: Buffer.from(salt) })
      return timingSafeEqual(Buffer.from(computed), Buffer.from(key))
    },
  }
}

/** https://www.akkadia.org/drepper/SHA-crypt.txt, whose names are in quotes. */
async function computeKey(
  secret: Buffer,
  { kind, rounds, salt }: { kind: Kind; rounds: number; salt: Buffer },
): Promise<string> {
  const digest = (...parts: Buffer[]) => hash(kind.name, Buffer.concat(parts), 'buffer')
  const repeat = (bytes: Buffer, length: number) => Buffer.alloc(length, bytes)
  const { length } = secret
  // "Digest B", and "A" for each bit of the length.
  const b = digest(secret, salt, secret)
  const bits = length === 0 ? '' : length.toString(2)
  const byBits = Array.from(bits, bit => (bit === '1' ? b : secret)).reverse()
  let sum = digest(secret, salt, repeat(b, length), ...byBits)
  // The sequences "P" and "S".
  const p = repeat(digest(repeat(secret, length * length)), length)
  const s = repeat(digest(repeat(salt, salt.length * (16 + (sum[0] ?? 0)))), salt.length)
  const none = Buffer.alloc(0)
  await runRounds(rounds, round => {
    const middle = [round % 3 === 0 ? none : s, round % 7 === 0 ? none : p]
    sum = round % 2 === 0 ? digest(sum, ...middle, p) : digest(p, ...middle, sum)
  })
  const { third, step } = kind
  const sourceOf = (at: number) =>
    (step * Math.floor(at / 3) + third * (2 - (at % 3))) % (3 * third)
  const ordered = sum.map((byte, at) => (at < 3 * third ? (sum[sourceOf(at)] ?? 0) : byte))
  return encodeDigits(ordered)
}

/** The binary logarithm of the number of rounds. They take about two seconds. */
const MAX_LOG_ROUNDS = 20

/** https://www.openwall.com/phpass/: `cost` is the binary logarithm of the number of rounds. */
const PHPASS = /^\$[PH]\$(?<cost>[5-9A-S])(?<salt>[./\dA-Za-z]{8})(?<key>[./\dA-Za-z]{21}[./01])$/

/** `$P$B…` of WordPress before 6.8, also `$H$…` as phpBB writes it. */
export function parsePhpass(text: string): Digest | undefined {
  const { cost, salt = '', key = '' } = PHPASS.exec(text)?.groups ?? {}
  if (cost === undefined) return undefined
  const logRounds = DIGITS.indexOf(cost)
  return {
    text: `$P$${cost}${salt}${key}`,
    kind: `$P$${cost}`,
    isAffordable: logRounds <= MAX_LOG_ROUNDS,
    verify: async password => {
      const secret = Buffer.from(password)
      let sum = hash('md5', salt + password, 'buffer')
      await runRounds(2 ** logRounds, () => {
        sum = hash('md5', Buffer.concat([sum, secret]), 'buffer')
      })
      return timingSafeEqual(Buffer.from(encodeDigits(sum)), Buffer.from(key))
    },
  }
}

/** They take about a millisecond. */
const ROUNDS_AT_ONCE = 400

/** Does fast rounds on the event loop, in slices between which it answers requests. */
async function runRounds(count: number, round: (index: number) => void): Promise<void> {
  for (let index = 0; index < count; index++) {
    round(index)
    if (index % ROUNDS_AT_ONCE === 0) await nextTurn()
  }
}

/** From 0 to 63. */
const DIGITS = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Three bytes become four digits, the lowest bits first. */
function encodeDigits(bytes: Uint8Array): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += 3) {
    const three = bytes.subarray(start, start + 3)
    const value = three.reduceRight((sum, byte) => (sum << 8) | byte, 0)
    for (let digit = 0; digit <= three.length; digit++) {
      text += DIGITS[(value >> (6 * digit)) & 63]
    }
  }
  return text
}
