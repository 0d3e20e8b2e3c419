import { expect, onTestFinished, test } from 'vitest'
import type { KeysInUse } from '../../src/users/keys-in-use.ts'
import { createKeysOfWorkers, createSharedKeysInUse } from '../../src/users/shared-keys-in-use.ts'
import { newUserBody } from '../support/builders.ts'
import { connectGatedCalls } from '../support/gated-calls.ts'
import { openWorkers, type TestWorker } from '../support/open-workers.ts'
import { until } from '../support/until.ts'

function post({ http }: TestWorker, key: string, body = newUserBody()) {
  return http.post('/users').set('Idempotency-Key', key).send(body)
}

/** A create that holds its key until the process of its worker goes on. */
async function beginCreate(worker: TestWorker, key: string) {
  worker.process.stop()
  const response = post(worker, key).then(answer => answer)
  await until(() => worker.first.received.some(text => text.includes(key)))
  return { response }
}

test('a key of a request that still runs in one worker is in use in the others', async () => {
  const { workers } = await openWorkers({})
  const [one, other] = workers as [TestWorker, TestWorker]
  const { response } = await beginCreate(one, 'key-1')
  const { status, body } = await post(other, 'key-1')
  expect(status).toBe(409)
  expect(body.reason).toBe('idempotency_key_in_use')
  await post(other, 'key-2').expect(201)
  one.process.goOn()
  expect((await response).status).toBe(201)
  // Now it is used by another body.
  await post(other, 'key-1').expect(422)
})

test('a key is free again when its request has failed', async () => {
  const { workers } = await openWorkers({})
  const [one, other] = workers as [TestWorker, TestWorker]
  await post(one, 'key-1', newUserBody({ email: 'nobody' })).expect(422)
  await post(other, 'key-1').expect(201)
})

test('a key is free again when its worker has ended', async () => {
  const keys = createKeysOfWorkers()
  const [one, other] = [1, 2].map(worker => {
    const { worker: process, first, end } = connectGatedCalls()
    onTestFinished(end)
    keys.answer(first.calls, worker)
    return createSharedKeysInUse(process.calls)
  }) as [KeysInUse, KeysInUse]
  expect(await one.claim('key-1')).toBe(true)
  expect(await other.claim('key-2')).toBe(true)
  keys.remove(1)
  expect(await other.claim('key-1')).toBe(true)
  expect(await other.claim('key-2')).toBe(false)
  // What the worker that has ended may still say changes nothing.
  await one.release('key-1')
  expect(await one.claim('key-1')).toBe(false)
})

test('a first process that does not answer leaves the decision to the repository', async () => {
  const { worker: process, end } = connectGatedCalls()
  onTestFinished(end)
  const keys = createSharedKeysInUse(process.calls)
  expect(await keys.claim('key-1')).toBe(true)
  await keys.release('key-1')
})
