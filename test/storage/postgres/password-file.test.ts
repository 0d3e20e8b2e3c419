import { expect, test } from 'vitest'
import { findPassword } from '../../../src/storage/postgres/password-file.ts'

test.each([
  ['::1:5432:db:ann:x', 'x'],
  [String.raw`\:\:1:5432:d\b:ann:x`, 'x'],
  [String.raw`*:*:*:*:x\:`, 'x:'],
  ['*:*:*:*::x::', ':x::'],
  [`*:*:*:*:x\\`, `x\\`],
  [String.raw`*:*:*:*:\\x\y`, `\\xy`],
  ['*:*:*:*:', ''],
  ['::2:5432:db:ann:y\n#*:*:*:*:y\n*:*:*:an:y\n*:*:*:ann:x😀\r\n*:*:*:*:y', 'x😀'],
  [':*:*:*:x', undefined],
  [String.raw`*:*:*:\*nn:x`, undefined],
  ['*:*:*:ann', undefined],
  ['', undefined],
])('findPassword finds in %j, as libpq does, %j', (text, password) => {
  expect(findPassword(text, ['::1', '5432', 'db', 'ann'])).toBe(password)
})
