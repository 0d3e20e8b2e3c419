import { availableParallelism } from 'node:os'
import { hash } from '@node-rs/argon2'
import { ServiceError } from '../errors.ts'
import { verifyDigest } from './password-digest.ts'

/** Turns passwords into Argon2id digests in PHC form, and back into yes or no. */
export interface PasswordHasher {
  /** Throws `overloaded` when too many wait already. */
  hash(password: string): Promise<string>
  /** Whether `digest` was made of `password`. Throws `overloaded` like `hash`. */
  verify(digest: string, password: string): Promise<boolean>
}

export interface PasswordHasherOptions {
  /** How many may be computed at once; each takes 19 MiB and a thread. */
  readonly maxConcurrent?: number
  /** How many more may wait for their turn. */
  readonly maxWaiting?: number
}

/** For Argon2id, the library's default, as the OWASP Password Storage Cheat Sheet has it: 19 MiB, 2 passes. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** Hashes run on the four threads of libuv; one of them stays free for writing the log. */
const MAX_THREADS = 3

const MAX_WAITING = 250

export function createPasswordHasher(options: PasswordHasherOptions = {}): PasswordHasher {
  const maxConcurrent = options.maxConcurrent ?? Math.min(availableParallelism(), MAX_THREADS)
  const maxWaiting = options.maxWaiting ?? MAX_WAITING
  const waiting: (() => void)[] = []
  let running = 0

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running < maxConcurrent) running++
    else if (waiting.length >= maxWaiting) throw new ServiceError('overloaded')
    // Whoever ends hands its place on, so `running` stays as it is.
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
    hash: password => inTurn(() => hash(normalised(password), PARAMETERS)),
    verify: (digest, password) => inTurn(() => verifyEitherForm(digest, password)),
  }
}

/** A digest from elsewhere may have been made of a password as it was typed. */
async function verifyEitherForm(digest: string, password: string): Promise<boolean> {
  const inOurForm = normalised(password)
  if (await verifyDigest(digest, inOurForm)) return true
  return inOurForm !== password && verifyDigest(digest, password)
}

/** Keyboards differ in how they compose a character: NIST SP 800-63B 3.1.1.2. */
function normalised(password: string): string {
  return password.normalize('NFKC')
}
