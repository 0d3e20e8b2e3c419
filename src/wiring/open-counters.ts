import type { Logger } from 'pino'
import { type Config, describeProblem } from '../config.ts'
import { OperatorError } from '../errors.ts'
import type { CounterStore } from '../limits/counter-store.ts'
import type { FallbackCounterStore } from '../limits/fallback-counter-store.ts'
import { createMemoryCounterStore } from '../limits/memory-counter-store.ts'
import { createWorkerCounterStore } from '../limits/workers/shared-counter-store.ts'
import type { RedisLocation } from '../redis-location.ts'
import type { Storage } from '../storage/storage.ts'
import type { Calls } from '../workers/calls.ts'
import type { Clocks } from './clocks.ts'

export interface CountersOptions {
  readonly config: Pick<Config, 'cacheStore' | 'redis' | 'redisPrefix'>
  readonly log: Logger
  readonly clocks: Pick<Clocks, 'monotonicNow'>
  readonly signingKey: Storage['signingKey']
  /** Calls to the first process, if this is one of several that serve together. */
  readonly firstProcess?: Calls | undefined
  /** Whether it replaces a worker that died: then nothing about Redis keeps it from serving. */
  readonly isReplacement?: boolean | undefined
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
  const { config, clocks, firstProcess, log } = options
  const { monotonicNow } = clocks
  if (config.cacheStore === 'none') return alone(undefined)
  if (config.cacheStore === 'memory' && firstProcess !== undefined) {
    return sharedBy(createWorkerCounterStore({ firstProcess, monotonicNow, log }))
  }
  const local = createMemoryCounterStore({ monotonicNow })
  // The settings say that both come together.
  return config.redis === undefined || config.cacheStore === 'memory'
    ? alone(local)
    : openInRedis(config.redis, local, options)
}

function sharedBy(store: FallbackCounterStore): Counters {
  return { store, isLocal: store.isLocal, close: store.close }
}

/** Counters that no other process shares. */
function alone(store: CounterStore | undefined): Counters {
  return { store, isLocal: () => false, close: () => {} }
}

async function openInRedis(
  location: RedisLocation,
  local: CounterStore,
  { config, log, signingKey, isReplacement = false }: CountersOptions,
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
      acceptsUnusable: isReplacement,
      onLost: reason => log.warn({ reason }, 'Redis cannot be used, limits are counted locally'),
      onBack: () => log.info('Redis can be used again, limits are counted there'),
    })
    return sharedBy(store)
  } catch (error) {
    if (!(error instanceof UnusableRedis)) throw error
    throw new OperatorError([describeProblem('REDIS_URL', location.url, error.message)])
  }
}
