import type { RedisLocation } from '../../config/redis-url.ts'
import { type CounterStore, counterText } from '../../limits/counter-store.ts'
import { clearInterval, setInterval } from '../../platform/timers.ts'
import { createFallbackCounterStore, type FallbackCounterStore } from './fallback-counter-store.ts'
import { createCounterNames, openRedisCounterStore } from './redis-counter-store.ts'
import { asUnusableRedis, reasonOf } from './redis-errors.ts'

export interface RedisCountersOptions {
  readonly location: RedisLocation
  /** What the name of every key begins with. */
  readonly prefix: string
  /** Hides who is counted. The same for all processes that count together. */
  readonly secret: Buffer
  /** Milliseconds since the epoch, by a clock that never jumps. */
  readonly steadyNow: () => number
  /** Counts while Redis does not. */
  readonly local: CounterStore
  /** Called once an outage, with its reason in words. */
  readonly onLost: (reason: string) => void
  readonly onBack: () => void
}

/** How long a count waits for Redis: 50 ms, less what timers may be late. */
const PATIENCE_MS = 40

const RETRY_EVERY_MS = 250

/** How often something is counted on trial, so that the loss of Redis is noticed without requests. */
const HEARTBEAT_MS = 1000

const HEARTBEAT = counterText('track 0 ', '', HEARTBEAT_MS)

/**
 * Opens counters in Redis, which are local while it cannot be used. Waits for it at most a second. Throws `UnusableRedis`
 * if waiting does not help.
 */
export async function openRedisCounters(
  options: RedisCountersOptions,
): Promise<FallbackCounterStore> {
  const { location, prefix, secret, steadyNow, local, onLost, onBack } = options
  const nameOf = createCounterNames(prefix, secret)
  const patienceMs = PATIENCE_MS
  const store = createFallbackCounterStore({
    open: link =>
      openRedisCounterStore({ ...link, location, prefix, nameOf, patienceMs, steadyNow }),
    local,
    patienceMs,
    retryEveryMs: RETRY_EVERY_MS,
    onLost: error => onLost(reasonOf(error)),
    onBack,
  })
  try {
    await store.start()
  } catch (error) {
    const unusable = asUnusableRedis(error)
    if (unusable === undefined) store.lose(error)
    else {
      store.close()
      throw unusable
    }
  }
  const heartbeat = setInterval(() => {
    if (!store.isLocal()) void store.increment(HEARTBEAT)
  }, HEARTBEAT_MS).unref()
  return {
    ...store,
    close: () => {
      clearInterval(heartbeat)
      store.close()
    },
  }
}
