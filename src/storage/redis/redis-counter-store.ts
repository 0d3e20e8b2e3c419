import { createHash, createHmac } from 'node:crypto'
import { type CounterStore, parseCounterText } from '../../limits/counter-store.ts'
import { memoize } from '../../platform/memoize.ts'
import { withinPatience } from '../../platform/patience.ts'
import type { Connect, Link, Send } from './redis-connection.ts'

/**
 * Counts a key in a window of as many milliseconds as ARGV says, once or as often as it says. Returns the count, and the
 * milliseconds until the window ends. Not by INCRBY, which the rights of the operator's user may lack. A key without an end would count for ever, so it gets one; such a key remains when a person or a tool removes its end.
 */
const COUNT_SCRIPT = `
local count = redis.call('INCR', KEYS[1])
for _ = 2, tonumber(ARGV[2] or 1) do count = redis.call('INCR', KEYS[1]) end
local left = -1
if count > 1 then left = redis.call('PTTL', KEYS[1]) end
if left < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  left = tonumber(ARGV[1])
end
return { count, left }`

/** Redis knows the script by this hash once it has run. */
const COUNT_SCRIPT_SHA1 = createHash('sha1').update(COUNT_SCRIPT).digest('hex')

export interface RedisCounterStoreOptions extends Link {
  readonly connect: Connect
  /** What the name of every key begins with. */
  readonly prefix: string
  /** Hides who is counted. The same for all processes that count together. */
  readonly secret: Buffer
  /** How long Redis may take to count. */
  readonly patienceMs: number
  /** Milliseconds since the epoch, by a clock that never jumps. */
  readonly steadyNow: () => number
}

/** Names that no client is counted by. So many that each master of a Cluster has some of them. */
const TRIALS = Array.from({ length: 64 }, (_, index) => `trial-${index}`)

const TRIAL_WINDOW_MS = 1000

/** Connects, and counts something on trial. Windows end by Redis's own clock. */
export async function openRedisCounterStore(
  options: RedisCounterStoreOptions,
): Promise<CounterStore> {
  const { prefix, secret, patienceMs, steadyNow } = options
  const nameOf = createCounterNames(prefix, secret)
  const send = await options.connect(options)
  const tryOut = () =>
    Promise.all(TRIALS.map(name => countInRedis(send, prefix + name, TRIAL_WINDOW_MS)))
  // The first time, Redis may have to read the script.
  await tryOut()
  await withinPatience(patienceMs, tryOut())
  return {
    increment: async (text, amount) => {
      const { counter, windowMs } = parseCounterText(text)
      const [totalHits, resetsInMs] = await countInRedis(send, nameOf(counter), windowMs, amount)
      return { totalHits, resetTime: new Date(steadyNow() + resetsInMs) }
    },

    decrement: () => {},

    resetKey: async (text, inMs = 0) => {
      const name = nameOf(parseCounterText(text).counter)
      // An end now deletes the key.
      await send(name, ['PEXPIRE', name, inMs > 0 ? wholeMs(inMs) : '0'])
    },
  }
}

/** What the script returns. */
type RedisCount = readonly [count: number, resetsInMs: number]

/** Counts a name. Redis forgets scripts when it restarts, and then gets its text again. */
function countInRedis(send: Send, name: string, windowMs: number, amount = 1): Promise<RedisCount> {
  const times = amount === 1 ? [] : [String(amount)]
  const parameters = ['1', name, wholeMs(windowMs), ...times]
  const counted = send(name, ['EVALSHA', COUNT_SCRIPT_SHA1, ...parameters]).catch(
    (error: Error) => {
      if (!error.message.startsWith('NOSCRIPT')) throw error
      return send(name, ['EVAL', COUNT_SCRIPT, ...parameters])
    },
  )
  return counted as Promise<RedisCount>
}

/** Redis knows whole milliseconds only, and a window must not end early. */
function wholeMs(ms: number): string {
  return String(Math.max(1, Math.ceil(ms)))
}

/** 96 bits: no two keys will ever share a name. */
const NAME_CHARS = 24

/**
 * Names counters by a prefix and a hash with a secret, so that nobody learns about clients from the names in Redis, not even by
 * trying every address. Remembers names, because making one takes longer than the rest of a count.
 */
function createCounterNames(prefix: string, secret: Buffer): (counter: string) => string {
  return memoize(counter => prefix + hashOf(secret, counter))
}

function hashOf(secret: Buffer, text: string): string {
  // UTF-16, because UTF-8 has the same bytes for all lone surrogates.
  const hmac = createHmac('sha256', secret).update(text, 'utf16le')
  return hmac.digest('hex').slice(0, NAME_CHARS)
}
