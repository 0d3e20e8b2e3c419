import { cpSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { filesOf } from '../support/databases.ts'
import { engine } from '../support/engine.ts'
import { ask } from '../support/json-requests.ts'
import { databaseIn } from '../support/new-database.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { PROJECT } from '../support/project.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { selectRows } from '../support/sql.ts'

const OLDER = 'its schema is that of an older release: run `migrate`\n'
const NEWER = 'its schema version 2 is from a newer release: this release knows only 1'
const SCHEMA = '0001_schema'
const NEXT = '0002_keep_notes'

/** The program of a release that has this one's files and one more migration. */
function nextRelease(): string {
  const folder = temporaryFolder()
  for (const name of ['dist', 'migrations', 'package.json']) {
    cpSync(join(PROJECT, name), join(folder, name), { recursive: true })
  }
  symlinkSync(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  const sql = "CREATE TABLE notes (note text NOT NULL); INSERT INTO notes (note) VALUES ('kept');"
  writeFileSync(join(folder, 'migrations', engine, `${NEXT}.sql`), sql)
  return join(folder, 'dist', 'main.js')
}

async function placeWithUser() {
  const cwd = temporaryFolder()
  const databaseUrl = await databaseIn(cwd)
  const env = { DATABASE_URL: databaseUrl }
  const service = await spawnService({ cwd, env })
  await ask(service, 'POST /users', newUserBody({ name: 'Ann' }))
  await service.end('SIGTERM')
  const next = nextRelease()
  const inNext = (...args: string[]) => run({ cwd, env, args, main: next })
  return { cwd, databaseUrl, env, next, inNext }
}

test('the next release says what is pending, refuses what needs its schema, migrates with all users, and cannot be undone', async () => {
  const { cwd, databaseUrl, env, next, inNext } = await placeWithUser()
  const checked = await inNext('check', '--json')
  expect(JSON.parse(checked.stdout)).toMatchObject({ sound: true, faults: [], pending: [NEXT] })
  expect((await inNext('migrate', '--status')).stdout).toMatch(`${NEXT}  pending\n`)
  const other = 'other.db'
  await run({ cwd, env: { DATABASE_URL: other }, args: ['migrate'], main: next })
  for (const args of [
    ['keys', 'list'],
    ['copy', '--from', databaseUrl, '--to', other],
    ['copy', '--from', other, '--to', databaseUrl],
  ]) {
    const ended = await inNext(...args)
    expect({ args, ...ended }).toMatchObject({ code: 1, stderr: expect.stringContaining(OLDER) })
  }
  // Two processes start at once.
  const services = await Promise.all([
    spawnService({ cwd, env, main: next }),
    spawnService({ cwd, env, main: next }),
  ])
  for (const { url, end } of services) {
    expect(await (await fetch(`${url}/users`)).json()).toMatchObject([{ id: 1, name: 'Ann' }])
    await end('SIGTERM')
  }
  expect(await selectRows(databaseUrl, 'SELECT note FROM notes')).toEqual([{ note: 'kept' }])
  expect(await inNext('check')).toMatchObject({ code: 0, stderr: '' })
  for (const args of [['serve'], ['migrate'], ['export']]) {
    const ended = await run({ cwd, env, args })
    const stderr = expect.stringContaining(NEWER)
    expect({ args, ...ended }).toMatchObject({ args, code: 1, stderr })
  }
})

test.runIf(engine === 'sqlite')(
  'the next release backs an older schema up as it is, and restores it with what is pending',
  async () => {
    const { cwd, env, next, inNext } = await placeWithUser()
    expect(await inNext('backup', 'copy.db')).toMatchObject({ code: 0 })
    const status = await run({
      cwd,
      env: { DATABASE_URL: 'copy.db' },
      args: ['migrate', '--status'],
    })
    expect(status.stdout).toMatch(new RegExp(`^${SCHEMA}  applied [^\n]+\n$`))
    const restored = await inNext('restore', 'copy.db', '--json')
    expect(JSON.parse(restored.stdout)).toMatchObject({ backup: 'copy.db', pending: [NEXT] })
    expect((await inNext('restore', 'copy.db')).stdout).toMatch(
      new RegExp(`^pending, .*: ${NEXT}$`, 'm'),
    )
    const service = await spawnService({ cwd, env, main: next })
    expect(await (await fetch(`${service.url}/users`)).json()).toHaveLength(1)
    await service.end('SIGTERM')
    expect(filesOf(join(cwd, 'copy.db'))).toEqual(['copy.db'])
  },
)
