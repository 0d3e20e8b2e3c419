import { createHmac, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createHmacSha256 } from '../../src/users/cursor.ts'

test('createHmacSha256 gives what HMAC-SHA-256 of node:crypto gives', () => {
  for (const keyBytes of [1, 32, 63, 64]) {
    for (const messageBytes of [0, 1, 63, 64, 65, 1000]) {
      const key = randomBytes(keyBytes)
      const message = randomBytes(messageBytes)
      const expected = createHmac('sha256', key).update(message).digest('hex')
      expect(createHmacSha256(key)(message).toString('hex')).toBe(expected)
    }
  }
})
