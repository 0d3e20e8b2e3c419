import { chmodSync, cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { modeOf } from '../support/databases.ts'
import { isEngine } from '../support/engine.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { runCommand, stdoutOf } from '../support/run-command.ts'
import { storedBytes, storedTables } from '../support/sql.ts'

const isSqlite = isEngine('sqlite', 'tests of the files of the database')

test.skipIf(process.platform === 'win32' || !isSqlite)(
  'only the service’s own user can read database, WAL and folder, whatever the umask, also after a kill',
  async () => {
    const umask = process.umask(0)
    onTestFinished(() => void process.umask(umask))
    const folder = temporaryFolder()
    const data = join(folder, 'data')
    // What a kill leaves, which the second service finds.
    const left = join(folder, 'left')
    for (const path of [data, left]) {
      const { http } = await openTestApp({ env: { DATABASE_URL: join(path, 'users.db') } })
      await http.post('/users').send(newUserBody()).expect(201)
      const files = readdirSync(path).map(file => [file, modeOf(join(path, file))])
      const modes = { 'users.db': 0o600, 'users.db-wal': 0o600, 'users.db-shm': 0o600 }
      expect(Object.fromEntries(files)).toEqual(modes)
      expect(modeOf(path)).toBe(0o700)
      // Some releases of Node give the copy of a folder another mode.
      if (path === data) cpSync(data, left, { recursive: true })
      chmodSync(left, 0o700)
    }
  },
)

test('a user who is deleted leaves only the hash of an Idempotency-Key in the tables, which never have the key', async () => {
  const { http, databaseUrl } = await openTestApp()
  const user = newUserBody({ name: 'Leaving', email: 'leaving@x.co', password: 'correct horse' })
  const keyed = http.post('/users').set('Idempotency-Key', 'leaving-key')
  const { body } = await keyed.send(user).expect(201)
  const bytes = await storedBytes(databaseUrl)
  expect(bytes.includes('argon2id')).toBe(true)
  expect(bytes.includes('leaving-key') || bytes.includes('correct horse')).toBe(false)
  await http.delete(`/users/${body.id}`).expect(204)
  expect((await http.get('/users?name=leaving')).body).toEqual([])

  const rows = await storedTables(databaseUrl)
  expect(JSON.stringify(rows)).not.toMatch(/leaving|\$argon2/i)
  const nothing = { fingerprint: null, user_json: null }
  expect(rows.idempotency_keys).toMatchObject([{ user_id: body.id, ...nothing }])
  expect(rows.users).toEqual([])
})

test.runIf(isSqlite)(
  'compact after a delete and a stop leaves nothing of the user in the file, as docs/operations/audit.md says',
  async () => {
    const users = [newUserBody({ name: 'Leaving', email: 'leaving@x.co' })]
    const { http, databaseUrl, stop } = await openTestApp({ users })
    await http.delete('/users/1').expect(204)
    await stop()
    const env = { DATABASE_URL: databaseUrl }
    await stdoutOf(runCommand({ cwd: temporaryFolder(), env, args: ['compact'] }))
    expect(readFileSync(databaseUrl).toString('latin1')).not.toMatch(/leaving/i)
  },
)
