import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'

const PROJECT = new URL('../../', import.meta.url)

const text = readFileSync(new URL('docs/security.md', PROJECT), 'utf8')

test('docs/security.md names tests that exist', () => {
  const files = Array.from(text.matchAll(/`(test\/[\w/.-]+\.ts)`/g), ([, file = '']) => file)
  expect(files.length).toBeGreaterThan(20)
  expect(files.filter(file => !existsSync(new URL(file, PROJECT)))).toEqual([])
})

test('a PUT tells whether a password is the stored one, as often as the rule of docs/security.md allows', async () => {
  const examples = Array.from(text.matchAll(/^ *```json\n([\s\S]*?)^ *```/gm), ([, json]) => json)
  expect(examples).toHaveLength(1)
  const limits = JSON.parse(examples[0] ?? '')
  const users = [newUserBody({ password: 'correct horse' })]
  const { http } = await openTestApp({ limits, users })
  const { body: user } = await http.get('/users/1').expect(200)
  const guess = (password: string, path = '/users/1') => http.put(path).send({ user: { password } })
  expect((await guess('correct horse')).body.updated_at).toBe(user.updated_at)
  expect((await guess('wrong horse')).body.updated_at).not.toBe(user.updated_at)
  for (const path of ['/users/1', '/users/%31', '/users/1?again'])
    await guess('x'.repeat(200), path).expect(422)
  for (const path of ['/users/1', '/users/%31', '/users/1?again'])
    await guess('correct horse', path).expect(429)
  await http.get('/users/1').expect(200)
})
