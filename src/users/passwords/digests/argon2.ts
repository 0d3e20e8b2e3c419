import { randomBytes } from 'node:crypto'
import { loadNativePackage } from '../../../platform/native-package.ts'
import { type Digest, decodeBase64, encodeBase64, MAX_MEMORY_KIB } from './digest.ts'

const { hash, verify } = loadNativePackage<typeof import('@node-rs/argon2')>('@node-rs/argon2')

/** For Argon2id, which is the default of the library. From OWASP's Password Storage Cheat Sheet. */
const CURRENT = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** The sizes that the library uses. */
const SALT_BYTES = 16
const KEY_BYTES = 32

/** With the most memory they take several seconds. */
const MAX_PASSES = 20

const MAX_LANES = 16

/** Of Django: 16 with argon2-cffi before 21.2. */
const DJANGO_KEY_BYTES = [16, 32]

/** https://github.com/P-H-C/phc-string-format/blob/master/phc-sf-spec.md */
const SPELLING =
  /^(?<django>argon2)?\$argon2(?<variant>id|i|d)\$(?:v=(?<version>16|19)\$)?m=(?<memoryKib>[1-9]\d{0,9}),t=(?<passes>[1-9]\d{0,9}),p=(?<lanes>[1-9]\d{0,7})\$(?<salt>[A-Za-z\d+/]{11,64}={0,2})\$(?<key>[A-Za-z\d+/]{16,86}={0,2})$/

/** A new digest of a password: Argon2id, in PHC form. */
export function makeDigest(password: string): Promise<string> {
  return hash(password, CURRENT)
}

/** Matches no password, for users without one. Verifying it costs as much as a new digest. */
export const DECOY = `$argon2id$v=19$m=19456,t=2,p=1$${randomBase64(SALT_BYTES)}$${randomBase64(KEY_BYTES)}`

/** PHC `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`, also `i` and `d`; Django `argon2$argon2id$…`. */
export function parseArgon2(text: string): Digest | undefined {
  const { variant, django, version = '16', ...parts } = SPELLING.exec(text)?.groups ?? {}
  const salt = decodeBase64(parts.salt)
  const key = decodeBase64(parts.key)
  const memoryKib = Number(parts.memoryKib)
  const passes = Number(parts.passes)
  const lanes = Number(parts.lanes)
  if (variant === undefined || !salt || !key || memoryKib < 8 * lanes) return undefined
  if (django !== undefined && !DJANGO_KEY_BYTES.includes(key.length)) return undefined
  const kind = `$argon2${variant}$v=${version}$m=${memoryKib},t=${passes},p=${lanes}`
  const canonical = `${kind}$${encodeBase64(salt)}$${encodeBase64(key)}`
  return {
    text: canonical,
    kind,
    isAffordable: memoryKib <= MAX_MEMORY_KIB && passes <= MAX_PASSES && lanes <= MAX_LANES,
    // More memory makes up for fewer passes, but not the other way around.
    isCurrent:
      kind.startsWith('$argon2id$v=19$') &&
      memoryKib >= CURRENT.memoryCost &&
      memoryKib * passes >= CURRENT.memoryCost * CURRENT.timeCost &&
      salt.length >= SALT_BYTES &&
      key.length >= KEY_BYTES,
    verify: password => verify(canonical, password),
  }
}

function randomBase64(bytes: number): string {
  return encodeBase64(randomBytes(bytes))
}
