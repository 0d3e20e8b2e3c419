import { createHmac, randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { ServiceError } from '../../errors.ts'
import { performance, sleep } from '../../platform/timers.ts'
import type { PasswordBlocklist } from './blocklist.ts'
import { DECOY, makeDigest } from './digests/argon2.ts'
import type { Digest } from './digests/digest.ts'
import { parseDigest } from './parse-digest.ts'

export type PasswordHasher = ReturnType<typeof createPasswordHasher>

/** Hashing runs on the four threads of libuv; one of them stays free to write the log. */
const MAX_THREADS = 3

export interface HasherOptions {
  /** Computations at once. Each takes 19 MiB and a thread. */
  readonly maxConcurrent?: number
  /** Further computations that may wait, at least 1. */
  readonly maxWaiting?: number
  readonly blocklist?: PasswordBlocklist | undefined
}

/**
 * Makes Argon2id digests of passwords, in PHC form, and verifies passwords against digests. All throw `overloaded` when too
 * many computations wait already.
 */
export function createPasswordHasher({
  maxConcurrent = Math.min(availableParallelism(), MAX_THREADS),
  maxWaiting = 250,
  blocklist,
}: HasherOptions = {}) {
  const timing = createLoginTiming(() => performance.now())
  /** For each waiting call, the functions that start its computations. Calls take turns, so one of many passwords holds up no other. */
  const queue: (() => void)[][] = []
  let queued = 0
  let running = 0
  let asleep = 0
  const waiting = () => queued + asleep

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const [result] = await allInTurn([work])
    return result as T
  }

  async function allInTurn<T>(works: readonly (() => Promise<T>)[]): Promise<T[]> {
    const atOnce = Math.min(works.length, maxConcurrent - running)
    if (queued + works.length - atOnce > maxWaiting) throw new ServiceError('overloaded')
    const own: (() => void)[] = []
    const results = works.map(async (work, index) => {
      if (index < atOnce) running++
      // A computation that ends passes its slot to this one, so `running` stays the same.
      else await new Promise<void>(resolve => own.push(resolve))
      try {
        return await work()
      } finally {
        passSlot()
      }
    })
    queued += own.length
    if (own.length > 0) queue.push(own)
    return Promise.all(results)
  }

  function passSlot(): void {
    const next = queue.shift()
    const begin = next?.shift()
    if (next === undefined || begin === undefined) {
      running--
      return
    }
    if (next.length > 0) queue.push(next)
    queued--
    begin()
  }

  return {
    /** Whether nobody may choose a password; `undefined` without a list of these. Reads the disk, in turn with what is hashed. */
    isCommon:
      blocklist &&
      ((password: string): Promise<boolean> => inTurn(() => blocklist.has(normalise(password)))),

    hash: (password: string): Promise<string> => inTurn(() => makeDigest(normalise(password))),

    /** The digests of the passwords of one call. Throws before it makes the first if not all may wait. */
    hashAll: (passwords: readonly string[]): Promise<string[]> =>
      allInTurn(passwords.map(password => () => makeDigest(normalise(password)))),

    /** Whether `digest` was made from `password`. False if the digest does not judge all of the password. */
    verify: (digest: string, password: string): Promise<boolean> =>
      inTurn(async () => {
        const known = parseDigest(digest)
        const forms = formsOf(password).filter(form => isJudgedWhole(known, form))
        const form = await findVerified(known, forms)
        return form !== undefined
      }),

    /**
     * For logins: whether the system that made the digest would accept this password. `whole` if the digest judges
     * all of it. With `beginning` the user's real password may be longer, so replacing the digest by one of this
     * password could lock the user out. False without a digest. Every failure takes about the same time, whatever the
     * digest.
     */
    verifyEvenly: async (
      digest: string = DECOY,
      password: string,
    ): Promise<'whole' | 'beginning' | false> => {
      // Counted separately: failed logins that sleep must not take places in the queue.
      if (asleep >= maxWaiting) throw new ServiceError('overloaded')
      const known = parseDigest(digest)
      const forms = formsOf(password)
      const { form, tookMs } = await inTurn(async () => {
        const startedAt = performance.now()
        const form = await findVerified(known, forms)
        return { form, tookMs: performance.now() - startedAt }
      })
      if (form !== undefined) {
        return isJudgedWhole(known, form) ? 'whole' : 'beginning'
      }
      const restMs = timing.restOf({ kind: known?.kind ?? '', tookMs, runs: forms.length })
      asleep++
      if (restMs > 0) await sleep(restMs)
      asleep--
      return false
    },

    /** Calls that wait for their turn or, after a failed login, for its time. */
    waiting,
  }
}

/**
 * A cheap hasher for dry runs, whose digests are never stored. They have a salt, because one password under two addresses of a
 * user is a change. `passwords` verifies all others.
 */
export function createTrialHasher(passwords: PasswordHasher): PasswordHasher {
  const key = randomBytes(32)
  const digestOf = (password: string, salt: string) =>
    `$trial$${salt}$${createHmac('sha256', key)
      .update(`${salt}$${normalise(password)}`)
      .digest('base64')}`
  return {
    ...passwords,
    hash: async password => digestOf(password, randomBytes(9).toString('base64')),
    verify: async (digest, password) => {
      const [, kind, salt = ''] = digest.split('$')
      if (kind === 'trial') return digest === digestOf(password, salt)
      return passwords.verify(digest, password)
    },
  }
}

async function findVerified(
  digest: Digest | undefined,
  forms: readonly string[],
): Promise<string | undefined> {
  if (!digest?.isAffordable) return undefined
  for (const form of forms) if (await digest.verify(form)) return form
  return undefined
}

function isJudgedWhole(digest: Digest | undefined, form: string): boolean {
  return Buffer.byteLength(form) < (digest?.judgedBytes ?? Infinity)
}

/** What a digest may be of: another system may have made it from a password that was not normalised. */
function formsOf(password: string): readonly string[] {
  return [...new Set([normalise(password), password])]
}

/** Keyboards differ in how they compose a character: NIST SP 800-63B 3.1.1.2. */
function normalise(password: string): string {
  return password.normalize('NFKC')
}

/**
 * How long a kind is kept after its last failure. Its last user may have a new digest by then. The first failure of a
 * kind that was forgotten is not hidden, so once in this time one e-mail with a slower kind can be recognised.
 */
const KNOWN_MS = 3_600_000

/** How much one verification changes the estimate of the machine's load. */
const LOAD_STEP = 0.1

/** A kind that takes less says nothing about the load: it varies too much. */
const MIN_TELLING_MS = 5

/** The largest load that one verification can show. If it took longer, something else delayed it. */
const MAX_LOAD = 4

/**
 * Tells how long the answers to failed verifications must wait, so that their times do not tell the kinds of digests: an
 * imported digest may take a hundred times as long as one of this service, or a hundredth.
 *
 * A verification takes longer on a busy machine, and the slowest kind is rarely seen. So each kind has its shortest time,
 * and all kinds share the load: how many times their shortest time the last verifications took.
 *
 * `now` is in milliseconds since any moment.
 */
export function createLoginTiming(now: () => number) {
  const kinds = new Map<string, { readonly shortestMs: number; readonly seenAt: number }>()
  let load = 1

  return {
    /**
     * Milliseconds to wait, so that the answer takes as long as one of the slowest known kind. May be negative. Digests of one
     * kind take the same time; `runs` says how many times the digest was computed.
     */
    restOf: ({ kind, tookMs, runs }: { kind: string; tookMs: number; runs: number }): number => {
      const ms = tookMs / runs
      const seenAt = now()
      for (const [name, last] of kinds) if (seenAt - last.seenAt > KNOWN_MS) kinds.delete(name)
      const shortest = kinds.get(kind)?.shortestMs ?? 0
      if (shortest >= MIN_TELLING_MS) {
        load += LOAD_STEP * (Math.min(Math.max(ms / shortest, 1), MAX_LOAD) - load)
      }
      kinds.set(kind, { shortestMs: Math.min(shortest || ms, ms), seenAt })
      const slowest = Math.max(...[...kinds.values()].map(known => known.shortestMs))
      return slowest * load * runs - tookMs
    },
  }
}
