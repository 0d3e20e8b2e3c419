import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { createApiKey, hashApiKey, isApiKey } from '../../src/access/api-key.ts'

const KEY = createApiKey(size => Buffer.alloc(size, 0xa5))
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

test('createApiKey makes the same key of the same bits, so that keys of earlier releases stay valid', () => {
  expect(KEY).toBe('urk_dHMOUNLh0UTx6gmQ9MHQdRUvZdbXMLLlzChlYYN1shx13mgot')
  expect(hashApiKey(KEY)).toEqual(createHash('sha256').update(KEY).digest())
})

test('createApiKey asks for 256 random bits, and all of them are in the key', () => {
  const keys = new Set<string>()
  for (let bit = 0; bit < 256; bit++) {
    const key = createApiKey(size => {
      expect(size).toBe(32)
      const bits = Buffer.alloc(size)
      bits[bit >> 3] = 1 << (bit & 7)
      return bits
    })
    expect(key).toMatch(/^urk_[0-9A-Za-z]{49}$/)
    expect(isApiKey(key)).toBe(true)
    keys.add(key.slice(0, -6))
  }
  expect(keys.size).toBe(256)
})

test('isApiKey refuses a key with another character, one more or less, or two that changed places', () => {
  const key = createApiKey(() => Buffer.from(ALPHABET.slice(0, 32)))
  for (let at = 0; at < key.length; at++) {
    const [before, after] = [key.slice(0, at), key.slice(at + 2)]
    const [char = '', next = ''] = [key[at], key[at + 1]]
    const others = [...`${ALPHABET}_-. é`].map(other => other + next)
    for (const changed of [...others, next + char, next, char + char + next]) {
      const typed = `${before}${changed}${after}`
      expect(isApiKey(typed), typed).toBe(typed === key)
    }
  }
})
