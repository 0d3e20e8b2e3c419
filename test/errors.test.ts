import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { ServiceError } from '../src/errors.ts'

test('ServiceError is an Error with its cause, and captures no stack', () => {
  const cause = new Error('the disk is full')
  const error = new ServiceError('storage_unavailable', { cause })
  expect(error).toBeInstanceOf(Error)
  expect(error).toMatchObject({ message: 'storage_unavailable', cause })
  expect((error as Error).stack).toBeUndefined()
  expect(inspect(error)).toContain('the disk is full')
})
