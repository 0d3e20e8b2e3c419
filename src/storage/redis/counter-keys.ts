import { createHmac } from 'node:crypto'
import { type CounterKey, counterText } from '../../limits/counter-store.ts'

/** 96 bits: no two keys will ever share a name. */
const NAME_CHARS = 24

/** The most names that are remembered, twice. */
const MAX_REMEMBERED = 5000

/** Longer keys are rare, and would make the memory for names large. */
const MAX_REMEMBERED_CHARS = 200

/**
 * Names keys by a prefix and a hash with a secret, so that nobody learns about clients from the names in Redis, not even by
 * trying every address. Remembers the names of recent keys, because making one takes longer than the rest of a count.
 */
export function createCounterKeys(prefix: string, secret: Buffer): (key: CounterKey) => string {
  let recent = new Map<string, string>()
  let older = new Map<string, string>()

  function remember(text: string, name: string): void {
    if (recent.size >= MAX_REMEMBERED) {
      older = recent
      recent = new Map()
    }
    recent.set(text, name)
  }

  return key => {
    const text = counterText(key)
    const known = recent.get(text)
    if (known !== undefined) return known
    const name = older.get(text) ?? prefix + hashOf(secret, text)
    if (text.length <= MAX_REMEMBERED_CHARS) remember(text, name)
    return name
  }
}

function hashOf(secret: Buffer, text: string): string {
  // UTF-16, because UTF-8 has the same bytes for all lone surrogates.
  const hmac = createHmac('sha256', secret).update(text, 'utf16le')
  return hmac.digest('hex').slice(0, NAME_CHARS)
}
