import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ask } from '../../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { exporting, folderWith, importing, ndjson } from '../../support/transfer.ts'
import { until } from '../../support/until.ts'

const LAST_ID = Number.MAX_SAFE_INTEGER

/** Sends the user as JSON; the status. */
async function send(url: string, method: string, user: unknown): Promise<number> {
  return (await ask({ url }, `${method} `, { user })).status
}

const user = (name: string, time: string, more = {}) => ({
  ...{ name, email: `${name}@example.com`, created_at: time, updated_at: time },
  ...more,
})

test.each(['ndjson', 'csv'])(
  'users with any possible id and time that are exported as %s can be imported',
  async format => {
    const cwd = folderWith(
      ndjson([
        user('first', '0000-01-01T00:00:00.000Z', { id: 1 }),
        user('early', '1900-12-31T23:59:59.999Z', { id: 3 }),
        user('late', '8999-12-31T23:59:59.999Z', { id: 2 ** 52 }),
        user('last', '9999-12-31T23:59:59.999Z', { id: LAST_ID - 2 }),
      ]),
    )
    expect(await importing(cwd, 'users.ndjson')).toMatchObject({ code: 0 })
    const service = await openTestApp({ env: { DATABASE_URL: join(cwd, 'data', 'users.db') } })
    expect(await send(`${service.url}/users/${2 ** 52}`, 'PUT', { name: 'Later' })).toBe(200)
    expect(await send(`${service.url}/users/1`, 'PUT', { name: 'Now' })).toBe(200)
    for (const name of ['next', 'very-last']) {
      const created = { name, email: `${name}@example.com` }
      expect(await send(`${service.url}/users`, 'POST', created)).toBe(201)
    }

    const file = `out.${format}`
    await exporting(cwd, file)
    const text = readFileSync(join(cwd, file), 'utf8')
    expect(text).toContain('9000-01-01T00:00:00.000Z')
    expect(text).toContain(String(LAST_ID))
    const elsewhere = temporaryFolder()
    const imported = await importing(elsewhere, join(cwd, file))
    expect(imported).toMatchObject({ code: 0, stderr: '' })
    const again = await exporting(elsewhere, '--format', format)
    expect(again.stdout).toBe(text)
  },
)

test('after the last id and the last time no other one is assigned, and everything else works', async () => {
  const cwd = folderWith(ndjson([user('last', '9999-12-31T23:59:59.999Z', { id: LAST_ID })]))
  await importing(cwd, 'users.ndjson')
  const service = await openTestApp({ env: { DATABASE_URL: join(cwd, 'data', 'users.db') } })
  const last = `${service.url}/users/${LAST_ID}`
  expect(await send(`${service.url}/users`, 'POST', { name: 'A', email: 'a@example.com' })).toBe(
    503,
  )
  expect(await send(last, 'PUT', { name: 'Changed' })).toBe(503)
  const isLogged = (text: string) => JSON.stringify(service.logLines).includes(text)
  await until(() => isLogged('no id is left for a new user'))
  await until(() => isLogged('no later time is left for a change'))
  expect(await (await fetch(`${service.url}/users`)).json()).toMatchObject([{ name: 'last' }])
  expect((await fetch(last, { method: 'DELETE' })).status).toBe(204)

  writeFileSync(join(cwd, 'more.ndjson'), '{"name":"A","email":"a@example.com"}\n')
  const { code, stderr } = await importing(cwd, 'more.ndjson')
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `the database is not available: no id is left for a new user: an import used the largest one, ${LAST_ID}\n`,
  })
})
