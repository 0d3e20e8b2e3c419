import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createApiKey, hashApiKey, isApiKey } from '../../src/access/api-key.ts'
import { isApiKeyName } from '../../src/access/api-key-name.ts'

const KEY = createApiKey(size => Buffer.alloc(size, 0xa5))
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

describe('createApiKey', () => {
  test('makes the same key of the same bits, so that keys of earlier releases stay valid', () => {
    expect(KEY).toBe('urk_dHMOUNLh0UTx6gmQ9MHQdRUvZdbXMLLlzChlYYN1shx13mgot')
  })

  test.each([
    ['the least bits', 0x00],
    ['the greatest bits', 0xff],
  ])('makes a key of %s that has the form of all others', (_bits, byte) => {
    const key = createApiKey(size => Buffer.alloc(size, byte))
    expect(key).toMatch(/^urk_[0-9A-Za-z]{49}$/)
    expect(isApiKey(key)).toBe(true)
  })

  test('asks for 256 random bits, and all of them are in the key', () => {
    const keys = new Set<string>()
    for (let bit = 0; bit < 256; bit++) {
      const key = createApiKey(size => {
        expect(size).toBe(32)
        const bits = Buffer.alloc(size)
        bits[bit >> 3] = 1 << (bit & 7)
        return bits
      })
      keys.add(key.slice(0, -6))
    }
    expect(keys.size).toBe(256)
  })
})

describe('isApiKey', () => {
  test('refuses a key in which any one character is another', () => {
    for (let at = 0; at < KEY.length; at++) {
      for (const char of `${ALPHABET}_-. é`) {
        const typed = KEY.slice(0, at) + char + KEY.slice(at + 1)
        expect(isApiKey(typed), typed).toBe(typed === KEY)
      }
    }
  })

  test('refuses a key in which two neighbours changed places, or a character is missing or doubled', () => {
    const key = createApiKey(() => Buffer.from(ALPHABET.slice(0, 32)))
    for (let at = 0; at < key.length; at++) {
      const [before, char = '', next = '', after] = [
        ...[key.slice(0, at), key[at], key[at + 1], key.slice(at + 2)],
      ]
      for (const changed of [next + char, next, char + char + next]) {
        const typed = `${before}${changed}${after}`
        expect(isApiKey(typed), typed).toBe(typed === key)
      }
    }
  })

  test.each([
    ['nothing', ''],
    ['the prefix alone', 'urk_'],
    ['a key of another service', `ghp_${KEY.slice(4)}`],
    ['a prefix in capital letters', `URK_${KEY.slice(4)}`],
    ['a blank before it', ` ${KEY}`],
    ['a line break behind it', `${KEY}\n`],
    ['two keys', KEY + KEY],
    ['quotes around it', `"${KEY}"`],
  ])('refuses %s', (_what, text) => {
    expect(isApiKey(text)).toBe(false)
  })
})

test('hashApiKey is the SHA-256 of the text of a key', () => {
  expect(hashApiKey(KEY)).toEqual(createHash('sha256').update(KEY).digest())
})

describe('isApiKeyName', () => {
  test.each(['a', '0', 'web-2026.10_b', 'A'.repeat(64), 'urk_x'])('allows %s', name => {
    expect(isApiKeyName(name)).toBe(true)
  })

  test.each([
    ['nothing', ''],
    ['65 characters', 'a'.repeat(65)],
    ['a blank', 'web shop'],
    ['a line break', 'web\n'],
    ['what looks like an option', '-web'],
    ['a name of a folder', '..'],
    ['letters of other alphabets', 'büro'],
    ['quotes', '"web"'],
    ['a key', KEY],
  ])('refuses %s', (_what, name) => {
    expect(isApiKeyName(name)).toBe(false)
  })
})
