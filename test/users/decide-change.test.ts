import { expect, test } from 'vitest'
import { decideChange, requireVersion } from '../../src/users/decide-change.ts'
import { showUser } from '../../src/users/stored-user.ts'
import type { Precondition, UserRow } from '../../src/users/user-repository.ts'
import { among } from '../support/among.ts'

const NOON = '2026-01-31T12:00:00.000Z'

const ANN: UserRow = {
  id: 7,
  name: 'Ann "A" \\',
  email: 'ann@example.com',
  passwordDigest: '$1',
  createdAt: NOON,
  updatedAt: NOON,
}

const at = (text: string) => ({ now: Date.parse(text) })

test('decideChange returns the row itself where no field differs', () => {
  for (const change of [{}, { name: ANN.name, email: ANN.email, passwordDigest: '$1' }]) {
    expect(decideChange(ANN, { ...change, judgedDigest: '$1' }, at(NOON))).toBe(ANN)
  }
})

test.each([
  ['is later', '2026-02-01T00:00:00.000Z', '2026-02-01T00:00:00.000Z'],
  ['stands still', NOON, '2026-01-31T12:00:00.001Z'],
  ['went back', '2020-01-01T00:00:00.000Z', '2026-01-31T12:00:00.001Z'],
])('decideChange makes updatedAt later if the clock %s', (_name, now, updatedAt) => {
  for (const change of [{ name: 'Bea' }, { email: 'Ann@example.com' }, { passwordDigest: null }]) {
    expect(decideChange(ANN, change, at(now))).toEqual({ ...ANN, ...change, updatedAt })
  }
})

test('decideChange checks the version, then the digest, then whether a later time is left', () => {
  const last = { ...ANN, updatedAt: '9999-12-31T23:59:59.999Z' }
  const { version } = showUser(last)
  const change = { name: 'Bea', judgedDigest: null }
  const decide = (fields: object, precondition: Precondition) =>
    decideChange(last, { ...change, ...fields }, { ...at(NOON), precondition })
  expect(() => decide({}, among('x'))).toThrow(
    expect.objectContaining({ code: 'version_mismatch' }),
  )
  expect(decide({}, among('x', version))).toBe('digest_changed')
  const compared = { judgedDigest: '$1' }
  const usedUp = expect.objectContaining({ code: 'storage_damaged' })
  expect(() => decide(compared, among(version))).toThrow(usedUp)
  expect(decide({ ...compared, name: ANN.name }, among(version))).toBe(last)
})

test('requireVersion accepts any version only if none is named', () => {
  const mismatch = expect.objectContaining({ code: 'version_mismatch' })
  requireVersion(ANN, undefined)
  expect(() => requireVersion(ANN, among())).toThrow(mismatch)
})
