import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { createPasswordHasher } from '../../src/users/passwords.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'

test('hash refuses what the queue cannot hold, and serves those that wait in it', async () => {
  const passwords = createPasswordHasher({ maxConcurrent: 1, maxWaiting: 2 })
  const results = await Promise.allSettled(
    Array.from({ length: 5 }, () => passwords.hash('correct horse')),
  )
  expect(results.map(({ status }) => status)).toEqual([
    'fulfilled',
    'fulfilled',
    'fulfilled',
    'rejected',
    'rejected',
  ])
  expect(results[4]).toMatchObject({ reason: { code: 'overloaded' } })
  await expect(passwords.hash('correct horse')).resolves.toMatch(/^\$argon2id\$/)
})

test('waiting tells how many calls wait for their turn, without those that compute', async () => {
  const passwords = createPasswordHasher({ maxConcurrent: 2, maxWaiting: 3 })
  const digest = await passwords.hash('correct horse')
  expect(passwords.waiting()).toBe(0)
  const calls = [
    passwords.hash('correct horse'),
    passwords.verify(digest, 'correct horse'),
    passwords.hash('correct horse'),
    passwords.verify(digest, 'wrong'),
    passwords.verifyEvenly(digest, 'correct horse'),
    passwords.hash('one too many'),
  ]
  expect(passwords.waiting()).toBe(3)
  await Promise.allSettled(calls)
  expect(passwords.waiting()).toBe(0)
})

test('200 passwords may wait at once by default', async () => {
  const { maxWaitingPasswords: maxWaiting } = loadConfig({}, '/no/.env')
  const { verify } = createPasswordHasher({ maxWaiting })
  const digest = hashBcrypt('correct horse', 4)
  const calls = Array.from({ length: 200 }, () => verify(digest, 'correct horse'))
  expect(new Set(await Promise.all(calls))).toEqual(new Set([true]))
})

test('POST /users takes many passwords at once, and GET is answered meanwhile', async () => {
  const { http } = await openTestApp()
  let created = 0
  const creates = Array.from({ length: 30 }, async () => {
    const { status } = await http.post('/users').send(newUserBody({ password: 'correct horse' }))
    expect(status).toBe(201)
    created++
  })
  expect((await http.get('/users/1')).status).not.toBe(503)
  expect(created).toBeLessThan(30)
  await Promise.all(creates)
})
