import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { checkLimits } from '../../src/limits/rules/checked-limits.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'

const PROJECT = new URL('../../', import.meta.url)

const text = readFileSync(new URL('docs/security.md', PROJECT), 'utf8')

/** Each test file, with the test names after it. */
const references = Array.from(
  text.matchAll(/`(test\/[\w/.-]+\.ts)`((?: "[^"]+",?)*)/g),
  ([, file = '', names = '']) => ({
    file,
    names: Array.from(names.matchAll(/"([^"]+)"/g), ([, name = '']) => name),
  }),
)

test('docs/security.md names tests that exist', () => {
  expect(references.length).toBeGreaterThan(20)
  for (const { file, names } of references) {
    const source = existsSync(new URL(file, PROJECT))
      ? readFileSync(new URL(file, PROJECT), 'utf8')
      : undefined
    expect(source, file).toBeDefined()
    for (const name of names) {
      const isThere = ["'", '"', '`'].some(quote => source?.includes(quote + name))
      expect([file, name, isThere]).toEqual([file, name, true])
    }
  }
})

test('docs/security.md has a row for each item of both lists', () => {
  const rows = [...text.matchAll(/^\| (API\d+|V\d+) /gm)].map(([, item]) => item)
  const api = Array.from({ length: 10 }, (_, index) => `API${index + 1}`)
  const chapters = Array.from({ length: 17 }, (_, index) => `V${index + 1}`)
  expect(rows).toEqual([...api, ...chapters])
})

function rules(): object[] {
  return [...text.matchAll(/^ *```json\n([\s\S]*?)^ *```/gm)].map(([, json = '']) =>
    JSON.parse(json),
  )
}

test('docs/security.md shows valid limits', () => {
  expect(rules()).toHaveLength(1)
  for (const rule of rules()) expect(checkLimits(rule)).toHaveProperty('limits')
})

test('a PUT tells whether a password is the stored one, as often as the rule of docs/security.md allows', async () => {
  const [limits = {}] = rules()
  const { http } = await openTestApp({ limits })
  const { body: user } = await http
    .post('/users')
    .send(newUserBody({ password: 'correct horse' }))
    .expect(201)
  const guess = (password: string, path = '/users/1') => http.put(path).send({ user: { password } })
  expect((await guess('correct horse')).body.updated_at).toBe(user.updated_at)
  expect((await guess('wrong horse')).body.updated_at).not.toBe(user.updated_at)
  for (const path of ['/users/1', '/users/%31', '/users/1?again'])
    await guess('x'.repeat(200), path).expect(422)
  for (const path of ['/users/1', '/users/%31', '/users/1?again'])
    await guess('correct horse', path).expect(429)
  await http.get('/users/1').expect(200)
})
