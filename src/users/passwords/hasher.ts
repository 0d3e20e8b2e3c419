import { createHmac, randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../errors.ts'
import { loadNativePackage } from '../../native-package.ts'
import { argon2idParameters, kindOfDigest, verifyDigest } from './digest.ts'
import { createEvenTimes } from './login-timing.ts'

/** Makes Argon2id digests of passwords, in PHC form, and verifies passwords against digests. */
export interface PasswordHasher {
  /** Throws `overloaded` when too many calls wait already. */
  hash(password: string): Promise<string>
  /** Whether `digest` was made from `password`. Throws `overloaded` like `hash`. */
  verify(digest: string, password: string): Promise<boolean>
  /** Calls that wait for their turn, without those that compute. */
  waiting(): number
}

/** Verifies the passwords of strangers. */
export interface LoginHasher extends PasswordHasher {
  /**
   * Whether `digest` was made from `password`; without a digest it is false. A failure takes about as long for every digest,
   * and without one. Throws `overloaded` like `hash`.
   */
  verifyEvenly(digest: string | undefined, password: string): Promise<boolean>
}

export interface PasswordHasherOptions {
  /** Computations at once. Each takes 19 MiB and a thread. */
  readonly maxConcurrent?: number
  /** Further calls that may wait. */
  readonly maxWaiting?: number
}

/** For Argon2id, the default of the library. From the OWASP Password Storage Cheat Sheet: 19 MiB, 2 passes. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** Hashing runs on the four threads of libuv; one of them stays free to write the log. */
const MAX_THREADS = 3

const MAX_WAITING = 250

const SALT_BYTES = 16

const HASH_BYTES = 32

/** A digest of no password, for users without one. Its verification costs as much as that of one that `hash` makes. */
export const DECOY = `$argon2id$v=19$m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=${PARAMETERS.parallelism}$${[
  SALT_BYTES,
  HASH_BYTES,
]
  .map(bytes => randomBytes(bytes).toString('base64').replaceAll('=', ''))
  .join('$')}`

const { hash } = loadNativePackage<typeof import('@node-rs/argon2')>('@node-rs/argon2')

export function createPasswordHasher(options: PasswordHasherOptions = {}): LoginHasher {
  const maxConcurrent = options.maxConcurrent ?? Math.min(availableParallelism(), MAX_THREADS)
  const maxWaiting = options.maxWaiting ?? MAX_WAITING
  const evenTimes = createEvenTimes()
  const waiting: (() => void)[] = []
  let running = 0

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running < maxConcurrent) running++
    else if (waiting.length >= maxWaiting) throw new ServiceError('overloaded')
    // A call that ends passes its slot to this one, so `running` stays the same.
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }

  return {
    hash: password => inTurn(() => hash(normalise(password), PARAMETERS)),
    verify: (digest, password) => inTurn(() => verifyEitherForm(digest, password)),
    verifyEvenly: async (digest = DECOY, password) => {
      const { isRight, tookMs } = await inTurn(() => timeVerification(digest, password))
      if (isRight) return true
      const kind = kindOfDigest(digest)
      const runs = normalise(password) === password ? 1 : 2
      const restMs = evenTimes.restOf({ kind, tookMs, runs })
      if (restMs > 0) await sleep(restMs)
      return false
    },
    waiting: () => waiting.length,
  }
}

/**
 * Whether a digest is Argon2id, and at least as hard to guess as one that `hash` makes. More memory makes up for fewer passes,
 * but not the other way around.
 */
export function isCurrentDigest(digest: string): boolean {
  const found = argon2idParameters(digest)
  if (found === undefined) return false
  const { memoryCost, timeCost } = PARAMETERS
  return (
    found.memoryKib >= memoryCost &&
    found.memoryKib * found.passes >= memoryCost * timeCost &&
    found.saltBytes >= SALT_BYTES &&
    found.hashBytes >= HASH_BYTES
  )
}

async function timeVerification(digest: string, password: string) {
  const startedAt = performance.now()
  const isRight = await verifyEitherForm(digest, password)
  return { isRight, tookMs: performance.now() - startedAt }
}

const TRIAL_PREFIX = '$trial$'

/**
 * A cheap hasher for dry runs. Only this hasher can verify its digests, which are never stored. `passwords` verifies all
 * other digests.
 */
export function createTrialHasher(passwords: PasswordHasher): PasswordHasher {
  const key = randomBytes(32)
  const hash = async (password: string) =>
    TRIAL_PREFIX + createHmac('sha256', key).update(normalise(password)).digest('base64')
  return {
    hash,
    verify: async (digest, password) =>
      digest.startsWith(TRIAL_PREFIX)
        ? digest === (await hash(password))
        : passwords.verify(digest, password),
    waiting: passwords.waiting,
  }
}

/** Another system may have made an imported digest from a password that was not normalised. */
async function verifyEitherForm(digest: string, password: string): Promise<boolean> {
  const normalised = normalise(password)
  if (await verifyDigest(digest, normalised)) return true
  return normalised !== password && verifyDigest(digest, password)
}

/** Keyboards differ in how they compose a character: NIST SP 800-63B 3.1.1.2. */
function normalise(password: string): string {
  return password.normalize('NFKC')
}
