import { hash, timingSafeEqual } from 'node:crypto'
import { type Digest, runRounds } from './digest.ts'
import { encodeCrypt64 } from './encodings.ts'

const DEFAULT_ROUNDS = 5000

/** They take about two seconds. */
const MAX_ROUNDS = 1_000_000

/** The longest that libxcrypt takes. Longer ones would make each round slower. */
const MAX_PASSWORD_BYTES = 511

const SPELLING =
  /^\$(?<id>[56])\$(?:rounds=(?<rounds>[1-9]\d{3,8})\$)?(?<salt>[!-#%-9;-~]{0,16})\$(?<key>[./\dA-Za-z]{43,86})$/

/** How the bytes are ordered: of each three, one of each third, the last first. */
const SHA_256 = { name: 'sha256', third: 10, step: 21, key: /^.{42}[./\dA-D]$/ }
const SHA_512 = { name: 'sha512', third: 21, step: 22, key: /^.{85}[./01]$/ }

type Kind = typeof SHA_256

/** `$5$…` and `$6$…` of crypt(3). Without `rounds=` there are 5000. */
export function parseCrypt3(text: string): Digest | undefined {
  const { id, salt = '', key = '', ...parts } = SPELLING.exec(text)?.groups ?? {}
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
  return encodeCrypt64(ordered)
}
