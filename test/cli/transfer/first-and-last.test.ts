import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { exporting, folderWith, importing, ndjson } from '../../support/transfer.ts'
import { until } from '../../support/until.ts'

const LAST_ID = Number.MAX_SAFE_INTEGER

const user = (name: string, time: string, id: number) => ({
  ...{ id, name, email: `${name}@example.com`, created_at: time, updated_at: time },
})

const serviceIn = (cwd: string) =>
  openTestApp({ env: { DATABASE_URL: join(cwd, 'data', 'users.db') } })

const statusOf = async (...args: Parameters<typeof ask>) => (await ask(...args)).status

test('users with any possible id and time that are exported can be imported', async () => {
  const cwd = folderWith(
    ndjson([
      user('first', '0000-01-01T00:00:00.000Z', 1),
      user('late', '8999-12-31T23:59:59.999Z', 2 ** 52),
      user('last', '9999-12-31T23:59:59.999Z', LAST_ID - 1),
    ]),
  )
  expect(await importing(cwd, 'users.ndjson')).toMatchObject({ code: 0 })
  const service = await serviceIn(cwd)
  const later = { user: { name: 'Later' } }
  expect(await statusOf(service, `PUT /users/${2 ** 52}`, later)).toBe(200)
  const next = { user: { name: 'next', email: 'next@example.com' } }
  expect(await statusOf(service, 'POST /users', next)).toBe(201)

  await exporting(cwd, 'out.csv')
  const text = readFileSync(join(cwd, 'out.csv'), 'utf8')
  expect(text).toContain('9000-01-01T00:00:00.000Z')
  expect(text).toContain(String(LAST_ID))
  const elsewhere = temporaryFolder()
  const imported = await importing(elsewhere, join(cwd, 'out.csv'))
  expect(imported).toMatchObject({ code: 0, stderr: '' })
  expect((await exporting(elsewhere, '--format', 'csv')).stdout).toBe(text)
})

test('after the last id and the last time no other one is assigned, and everything else works', async () => {
  const cwd = folderWith(ndjson([user('last', '9999-12-31T23:59:59.999Z', LAST_ID)]))
  await importing(cwd, 'users.ndjson')
  const service = await serviceIn(cwd)
  const last = `/users/${LAST_ID}`
  const another = { name: 'A', email: 'a@example.com' }
  expect(await statusOf(service, 'POST /users', { user: another })).toBe(503)
  expect(await statusOf(service, `PUT ${last}`, { user: { name: 'Changed' } })).toBe(503)
  const isLogged = (text: string) => service.logText.join().includes(text)
  await until(() => isLogged('no id is left for a new user'))
  await until(() => isLogged('no later time is left for a change'))
  expect((await ask(service, `GET ${last}`)).body).toMatchObject({ name: 'last' })
  expect(await statusOf(service, `DELETE ${last}`)).toBe(204)

  writeFileSync(join(cwd, 'more.ndjson'), ndjson([another]))
  const { code, stderr } = await importing(cwd, 'more.ndjson')
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `the database cannot do this: no id is left for a new user: an import used the largest one, ${LAST_ID}\n`,
  })
})
