import type { Logger } from 'pino'
import type { RedisLocation } from '../config/redis-url.ts'
import { type Config, describeProblem } from '../config/settings.ts'
import { OperatorError } from '../errors.ts'
import type { CounterStore } from '../limits/counter-store.ts'
import { createMemoryCounterStore } from '../limits/memory-counter-store.ts'
import type { Storage } from '../storage/storage.ts'
import type { Clocks } from './clocks.ts'

export interface CountersOptions {
  readonly config: Pick<Config, 'cacheStore' | 'redis' | 'redisPrefix'>
  readonly log: Logger
  readonly clocks: Pick<Clocks, 'monotonicNow'>
  readonly signingKey: Storage['signingKey']
}

/** The counters of a service. */
export interface Counters {
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  /** Whether this process counts by itself although others should count with it. */
  isLocal(): boolean
  close(): void
}

/** Opens the counters that CACHE_STORE names. Throws `OperatorError`. */
export async function openCounters(options: CountersOptions): Promise<Counters> {
  const { config, clocks } = options
  if (config.cacheStore === 'none') return alone(undefined)
  const local = createMemoryCounterStore(clocks)
  // The settings say that both come together.
  return config.redis === undefined || config.cacheStore === 'memory'
    ? alone(local)
    : openInRedis(config.redis, local, options)
}

/** Counters that no other process shares. */
function alone(store: CounterStore | undefined): Counters {
  return { store, isLocal: () => false, close: () => {} }
}

async function openInRedis(
  location: RedisLocation,
  local: CounterStore,
  { config, log, signingKey }: CountersOptions,
): Promise<Counters> {
  // Imported only if it is used: the client takes 18 MB and a tenth of a second.
  const { openRedisCounters } = await import('../storage/redis/open-redis-counters.ts')
  const { UnusableRedis } = await import('../storage/redis/redis-errors.ts')
  try {
    const store = await openRedisCounters({
      location,
      prefix: config.redisPrefix,
      secret: await signingKey('counters'),
      local,
      onLost: reason => log.warn({ reason }, 'Redis cannot be used, limits are counted locally'),
      onBack: () => log.info('Redis can be used again, limits are counted there'),
    })
    return { store, isLocal: store.isLocal, close: store.close }
  } catch (error) {
    if (!(error instanceof UnusableRedis)) throw error
    throw new OperatorError([describeProblem('REDIS_URL', location.url, error.message)])
  }
}
