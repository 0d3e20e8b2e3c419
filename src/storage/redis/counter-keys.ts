import { createHmac } from 'node:crypto'
import { type CounterKey, counterText } from '../../limits/counter-store.ts'
import { memoize } from '../../limits/rules/memoize.ts'

/** 96 bits: no two keys will ever share a name. */
const NAME_CHARS = 24

/**
 * Names keys by a prefix and a hash with a secret, so that nobody learns about clients from the names in Redis, not even by
 * trying every address. Remembers names, because making one takes longer than the rest of a count.
 */
export function createCounterKeys(prefix: string, secret: Buffer): (key: CounterKey) => string {
  const nameOf = memoize((text: string) => prefix + hashOf(secret, text))
  return key => nameOf(counterText(key))
}

function hashOf(secret: Buffer, text: string): string {
  // UTF-16, because UTF-8 has the same bytes for all lone surrogates.
  const hmac = createHmac('sha256', secret).update(text, 'utf16le')
  return hmac.digest('hex').slice(0, NAME_CHARS)
}
