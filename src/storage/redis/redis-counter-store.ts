import type { Count, CounterKey, CounterStore } from '../../limits/counter-store.ts'
import type { RedisLink } from './redis-link.ts'

export interface RedisCounterStoreOptions {
  readonly nameOf: (key: CounterKey) => string
  readonly link: Pick<RedisLink, 'count'>
}

interface Pending {
  readonly name: string
  readonly windowMs: number
  readonly resolve: (count: Count) => void
  readonly reject: (error: unknown) => void
}

/** The most keys of one question, so that none keeps Redis busy for more than a few milliseconds. */
const MAX_KEYS = 1000

/** Windows end by Redis's own clock. All that is counted within one turn of the event loop is asked at once. */
export function createRedisCounterStore({ nameOf, link }: RedisCounterStoreOptions): CounterStore {
  let pending: Pending[] = []

  function add(key: CounterKey, windowMs: number): Promise<Count> {
    return new Promise((resolve, reject) => {
      pending.push({ name: nameOf(key), windowMs, resolve, reject })
      if (pending.length === 1) setImmediate(flush)
    })
  }

  function flush(): void {
    while (pending.length > MAX_KEYS) void send(pending.splice(0, MAX_KEYS))
    void send(pending)
    pending = []
  }

  async function send(batch: readonly Pending[]): Promise<void> {
    const names = batch.map(({ name }) => name)
    const windows = batch.map(({ windowMs }) => windowMs)
    try {
      const replies = await link.count(names, windows)
      for (const [index, { resolve }] of batch.entries()) {
        const count = replies[2 * index] as number
        resolve({ count, resetsInMs: replies[2 * index + 1] as number })
      }
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  return {
    // Redis knows whole milliseconds only, and a window must not end early.
    increment: (key, windowMs) => add(key, wholeMs(windowMs)),
    reset: async (key, inMs = 0) => {
      await add(key, inMs > 0 ? -wholeMs(inMs) : 0)
    },
  }
}

function wholeMs(ms: number): number {
  return Math.max(1, Math.ceil(ms))
}
