import { createHmac, randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../errors.ts'
import { DECOY, kindOfDigest, makeDigest, verifyDigest } from './digest.ts'
import { createLoginTiming } from './login-timing.ts'

export type PasswordHasher = ReturnType<typeof createPasswordHasher>

/** Hashing runs on the four threads of libuv; one of them stays free to write the log. */
const MAX_THREADS = 3

/**
 * Makes Argon2id digests of passwords, in PHC form, and verifies passwords against digests. All throw `overloaded` when too
 * many calls wait already.
 */
export function createPasswordHasher(
  options: {
    /** Computations at once. Each takes 19 MiB and a thread. */
    readonly maxConcurrent?: number
    /** Further calls that may wait, at least 1. */
    readonly maxWaiting?: number
  } = {},
) {
  const { maxConcurrent = Math.min(availableParallelism(), MAX_THREADS), maxWaiting = 250 } =
    options
  const timing = createLoginTiming(() => performance.now())
  const queue: (() => void)[] = []
  let running = 0
  let asleep = 0
  const waiting = () => queue.length + asleep

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (queue.length >= maxWaiting) throw new ServiceError('overloaded')
    if (running < maxConcurrent) running++
    // A call that ends passes its slot to this one, so `running` stays the same.
    else await new Promise<void>(resolve => queue.push(resolve))
    try {
      return await work()
    } finally {
      const next = queue.shift()
      if (next === undefined) running--
      else next()
    }
  }

  return {
    hash: (password: string): Promise<string> => inTurn(() => makeDigest(normalise(password))),

    /** Whether `digest` was made from `password`. */
    verify: (digest: string, password: string): Promise<boolean> =>
      inTurn(() => verifyEitherForm(digest, password)),

    /**
     * Like `verify`, but for logins: false without a digest, and every failure takes about the same time, whatever the
     * digest.
     */
    verifyEvenly: async (digest: string = DECOY, password: string): Promise<boolean> => {
      // Counted separately: failed logins that sleep must not take places in the queue.
      if (asleep >= maxWaiting) throw new ServiceError('overloaded')
      const { isRight, tookMs } = await inTurn(async () => {
        const startedAt = performance.now()
        const isRight = await verifyEitherForm(digest, password)
        return { isRight, tookMs: performance.now() - startedAt }
      })
      if (isRight) return true
      const runs = normalise(password) === password ? 1 : 2
      const restMs = timing.restOf({ kind: kindOfDigest(digest), tookMs, runs })
      asleep++
      if (restMs > 0) await sleep(restMs)
      asleep--
      return false
    },

    /** Calls that wait for their turn or, after a failed login, for its time. */
    waiting,
  }
}

/** A cheap hasher for dry runs, whose digests are never stored. `passwords` verifies all other digests. */
export function createTrialHasher(passwords: PasswordHasher): PasswordHasher {
  const key = randomBytes(32)
  const hash = async (password: string) =>
    `$trial$${createHmac('sha256', key).update(normalise(password)).digest('base64')}`
  return {
    ...passwords,
    hash,
    verify: async (digest, password) =>
      digest === (await hash(password)) || passwords.verify(digest, password),
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
