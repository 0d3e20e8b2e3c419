import { hash, timingSafeEqual } from 'node:crypto'
import { type Digest, runRounds } from './digest.ts'
import { CRYPT_DIGITS, encodeCrypt64 } from './encodings.ts'

/** The binary logarithm of the number of rounds. They take about two seconds. */
const MAX_LOG_ROUNDS = 20

/** https://www.openwall.com/phpass/: `cost` is the binary logarithm of the number of rounds. */
const SPELLING = /^\$[PH]\$(?<cost>[5-9A-S])(?<salt>[./\dA-Za-z]{8})(?<key>[./\dA-Za-z]{21}[./01])$/

/** `$P$B…` of WordPress before 6.8, also `$H$…` as phpBB writes it. */
export function parsePhpass(text: string): Digest | undefined {
  const { cost, salt = '', key = '' } = SPELLING.exec(text)?.groups ?? {}
  if (cost === undefined) return undefined
  const logRounds = CRYPT_DIGITS.indexOf(cost)
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
      return timingSafeEqual(Buffer.from(encodeCrypt64(sum)), Buffer.from(key))
    },
  }
}
