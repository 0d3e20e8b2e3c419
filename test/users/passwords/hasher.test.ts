import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { createPasswordHasher } from '../../../src/users/passwords/hasher.ts'
import { newUserBody } from '../../support/builders.ts'
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

test('calls take turns: one of many passwords holds up no other, and fits as a whole or not at all', async () => {
  const { hash, hashAll, waiting } = createPasswordHasher({ maxConcurrent: 1, maxWaiting: 9 })
  const ended: string[] = []
  const note = (name: string) => () => ended.push(name)
  const many = hashAll(Array(6).fill(PASSWORD))
  const others = [
    hash(PASSWORD).then(note('one')),
    hashAll([PASSWORD, PASSWORD]).then(note('two')),
    many.then(note('many')),
  ]
  expect(waiting()).toBe(8)
  await expect(hashAll([PASSWORD, PASSWORD])).rejects.toMatchObject({ code: 'overloaded' })
  others.push(hash(PASSWORD).then(note('last')))
  await Promise.all(others)
  expect(ended).toEqual(['one', 'last', 'two', 'many'])
  expect(new Set(await many).size).toBe(6)
  expect(waiting()).toBe(0)
  expect(await hashAll([])).toEqual([])
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
