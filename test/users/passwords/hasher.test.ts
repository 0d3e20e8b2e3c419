import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { createLoginTiming, createPasswordHasher } from '../../../src/users/passwords/hasher.ts'
import { newUserBody } from '../../support/builders.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { until } from '../../support/until.ts'

const PASSWORD = 'correct horse'

const DIGEST = hashBcrypt(PASSWORD, 4)

test('failed logins that wait for the time of a slower digest are bounded, and keep nobody from a turn', async () => {
  const { hash, verifyEvenly, waiting } = createPasswordHasher({ maxConcurrent: 1, maxWaiting: 2 })
  await verifyEvenly(hashBcrypt(PASSWORD, 12), 'wrong horse')
  const failed = [verifyEvenly(DIGEST, 'wrong horse'), verifyEvenly(DIGEST, 'wrong horse')]
  await until(() => waiting() === 2)
  const another = verifyEvenly(DIGEST, 'wrong horse')
  await expect(another).rejects.toMatchObject({ code: 'overloaded' })
  expect(await hash(PASSWORD)).toMatch(/^\$argon2id\$/)
  expect(await Promise.all(failed)).toEqual([false, false])
  expect(waiting()).toBe(0)
  expect(await hash(PASSWORD)).toMatch(/^\$argon2id\$/)
})

test('POST /users takes many passwords at once, and GET is answered meanwhile', async () => {
  const { http } = await openTestApp()
  let created = 0
  const creates = Array.from({ length: 30 }, async () => {
    const body = newUserBody({ password: PASSWORD })
    await http.post('/users').send(body).expect(201)
    created++
  })
  expect((await http.get('/users/1')).status).not.toBe(503)
  expect(created).toBeLessThan(30)
  await Promise.all(creates)
})

const HOUR_MS = 3_600_000

test('restOf makes each failure wait for the slowest kind, by the shortest time of each kind', () => {
  const { restOf } = createLoginTiming(createFakeClock().now)
  expect(restOf({ kind: 'usual', tookMs: 25, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'slow', tookMs: 700, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'slow', tookMs: 200, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'usual', tookMs: 25, runs: 1 })).toBe(175)
  expect(restOf({ kind: 'fast', tookMs: 1, runs: 1 })).toBe(199)
  // A password in two forms is computed twice.
  expect(restOf({ kind: 'usual', tookMs: 50, runs: 2 })).toBe(350)
})

test('restOf forgets a kind that it has not seen for an hour', () => {
  const clock = createFakeClock()
  const { restOf } = createLoginTiming(clock.now)
  const usual = { kind: 'usual', tookMs: 25, runs: 1 }
  restOf({ kind: 'slow', tookMs: 4000, runs: 1 })
  for (const step of [0, HOUR_MS / 2, HOUR_MS / 2]) {
    clock.advance(step)
    expect(restOf(usual)).toBe(3975)
  }
  clock.advance(1)
  expect(restOf(usual)).toBe(0)
  // It is seen again, and stays known as long as it is.
  restOf({ kind: 'slow', tookMs: 4000, runs: 1 })
  for (let hour = 0; hour < 3; hour++) {
    clock.advance(HOUR_MS)
    expect(restOf({ kind: 'slow', tookMs: 4000, runs: 1 })).toBe(0)
    expect(restOf(usual)).toBe(3975)
  }
})

test('restOf follows the load of the machine, but not what held up one verification', () => {
  const { restOf } = createLoginTiming(createFakeClock().now)
  restOf({ kind: 'slow', tookMs: 200, runs: 1 })
  restOf({ kind: 'usual', tookMs: 25, runs: 1 })
  const busy = { kind: 'usual', tookMs: 50, runs: 1 }
  for (let failure = 0; failure < 100; failure++) restOf(busy)
  expect(restOf(busy)).toBeCloseTo(2 * 200 - 50, 0)
  for (let failure = 0; failure < 100; failure++) restOf({ ...busy, tookMs: 25 })
  restOf({ ...busy, tookMs: 60_000 })
  expect(restOf({ ...busy, tookMs: 25 })).toBeLessThan(275)
})

test('restOf learns nothing about the load from a kind that takes no time', () => {
  const { restOf } = createLoginTiming(createFakeClock().now)
  const usual = { kind: 'usual', tookMs: 25, runs: 1 }
  restOf(usual)
  for (const tookMs of [0.01, 0.5, 0.5, 0.5]) restOf({ kind: 'fast', tookMs, runs: 1 })
  expect(restOf(usual)).toBe(0)
})
