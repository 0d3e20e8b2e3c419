import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'
import { executeSql } from '../support/sql.ts'
import { importingFrom } from '../support/transfer.ts'

const EMAIL = 'ann@x-.co'

const PASSWORD = 'correct horse'

const OLDER = { id: 1, name: '\u200b\u2800', email: EMAIL }

/** A service with one user, whose name and e-mail the rules of earlier releases allowed. */
async function openOlder() {
  const user = { name: '\u{1f600}', email: 'ann@x.co', password: PASSWORD }
  const app = await openTestApp({ users: [{ user }] })
  const set = `name = '${OLDER.name}', name_lower = '${OLDER.name}', email = '${EMAIL}'`
  await executeSql(app.databaseUrl, `UPDATE users SET ${set}`)
  return app
}

test('a user of older rules is shown, found, verified, changed in its other fields and deleted', async () => {
  const { http } = await openOlder()
  const query = `?email=${EMAIL}&name=${encodeURIComponent(OLDER.name)}`
  expect((await http.get(`/users${query}`).expect(200)).body).toMatchObject([OLDER])
  const verify = (password: string) =>
    http.post('/password-verifications').send({ user: { email: 'ANN@x-.co', password } })
  expect((await verify(PASSWORD).expect(200)).body).toMatchObject(OLDER)
  const change = (user: object) => http.put('/users/1').send({ user })
  expect((await change({ password: 'battery staple' }).expect(200)).body).toMatchObject(OLDER)
  await verify(PASSWORD).expect(422)
  await verify('battery staple').expect(200)
  const again = await change({ name: OLDER.name, email: EMAIL }).expect(422)
  expect(again.body.errors).toEqual({ name: ["can't be blank"], email: ['is invalid'] })
  expect((await change({ name: 'Ann' }).expect(200)).body).toMatchObject({ ...OLDER, name: 'Ann' })
  expect((await change({ email: 'a@x.co' }).expect(200)).body.email).toBe('a@x.co')
  await http.delete('/users/1').expect(204)
})

test('a user of older rules is checked, exported and copied as it is, and its import is rejected in words', async () => {
  const { databaseUrl, stop } = await openOlder()
  await stop()
  const cwd = temporaryFolder()
  const env = { DATABASE_URL: databaseUrl }
  const run = (...args: string[]) => runCommand({ cwd, env, args })
  expect(await run('check')).toMatchObject({ code: 0 })
  const exported = await run('export', '-', '--format', 'ndjson')
  expect([exported.code, JSON.parse(exported.stdout)]).toMatchObject([0, OLDER])
  const to = `file:${join(cwd, 'copy.db')}`
  expect(await run('copy', '--from', databaseUrl, '--to', to)).toMatchObject({ code: 0 })
  env.DATABASE_URL = to
  expect((await run('export', '-', '--format', 'ndjson')).stdout).toBe(exported.stdout)
  const imported = await importingFrom(exported.stdout, cwd, '-', '--format', 'ndjson')
  expect([imported.code, imported.stderr]).toEqual([
    3,
    "line 1: name can't be blank, email is invalid\n",
  ])
})
