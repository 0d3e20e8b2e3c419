import type { RedisLocation } from '../../config/redis-url.ts'
import { type CounterStore, counterText } from '../../limits/counter-store.ts'
import { clearInterval, setInterval } from '../../platform/timers.ts'
import { createFallbackCounterStore, type FallbackCounterStore } from './fallback-counter-store.ts'
import { createRedisConnector } from './redis-connection.ts'
import { openRedisCounterStore, type RedisCounterStoreOptions } from './redis-counter-store.ts'
import { asUnusableRedis, reasonOf } from './redis-errors.ts'

type OfRedis = Pick<RedisCounterStoreOptions, 'prefix' | 'secret' | 'steadyNow'>

export interface RedisCountersOptions extends OfRedis {
  readonly location: RedisLocation
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
  const { location, local, onLost, onBack, ...ofRedis } = options
  const connect = createRedisConnector(location)
  const store = createFallbackCounterStore({
    open: link => openRedisCounterStore({ connect, ...link, ...ofRedis, patienceMs: PATIENCE_MS }),
    local,
    patienceMs: PATIENCE_MS,
    retryEveryMs: RETRY_EVERY_MS,
    onLost: error => onLost(reasonOf(error)),
    onBack,
  })
  try {
    await store.start()
  } catch (error) {
    const unusable = asUnusableRedis(error)
    if (unusable !== undefined) {
      store.close()
      throw unusable
    }
    store.lose(error)
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
