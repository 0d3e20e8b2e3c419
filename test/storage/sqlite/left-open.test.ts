import { statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createUser } from '../../support/fill-users.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { run, type SpawnedService, spawnService } from '../../support/spawn-service.ts'

const LEFT_OPEN = 'database was not closed cleanly, run `check` to examine it'

/** The lines that a start logs at level warn. */
function warnings(service: SpawnedService): unknown[] {
  return service
    .stdout()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
    .filter(({ level }) => level === 'warn')
    .map(({ msg }) => msg)
}

async function end(service: SpawnedService, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  service.process.kill(signal)
  await service.exited
}

describe('a start', () => {
  test('recommends `check` once after a kill, and not after the next stop', async () => {
    const cwd = temporaryFolder()
    const first = await spawnService({ cwd })
    await createUser(first.url)
    await end(first, 'SIGKILL')
    const second = await spawnService({ cwd })
    expect(warnings(second)).toEqual([LEFT_OPEN])
    expect((await fetch(`${second.url}/users/1`)).status).toBe(200)
    await end(second, 'SIGTERM')
    expect(warnings(await spawnService({ cwd }))).toEqual([])
  })

  test('through a symbolic link serves the commits of a killed service', async () => {
    const cwd = temporaryFolder()
    symlinkSync(join('data', 'users.db'), join(cwd, 'link.db'))
    const first = await spawnService({ cwd })
    await createUser(first.url)
    await end(first, 'SIGKILL')
    const second = await spawnService({ cwd, env: { DATABASE_URL: 'link.db' } })
    expect(warnings(second)).toEqual([LEFT_OPEN])
    expect((await fetch(`${second.url}/users/1`)).status).toBe(200)
  })

  test('recommends nothing at first, after a stop, and after commands', async () => {
    const cwd = temporaryFolder()
    const first = await spawnService({ cwd })
    expect(warnings(first)).toEqual([])
    await createUser(first.url)
    await end(first, 'SIGTERM')
    for (const args of [['check'], ['export'], ['migrate'], ['bans', 'list'], ['backup', 'b.db']]) {
      expect(await run({ cwd, args })).toMatchObject({ code: 0 })
    }
    expect(warnings(await spawnService({ cwd }))).toEqual([])
  })

  test('recommends nothing while another process has the database open and its commits are in the WAL', async () => {
    const cwd = temporaryFolder()
    const first = await spawnService({ cwd })
    await createUser(first.url)
    expect(statSync(join(cwd, 'data/users.db-wal')).size).toBeGreaterThan(32)
    const second = await spawnService({ cwd })
    expect(warnings(second)).toEqual([])
    await createUser(second.url, { email: 'bea@example.com' })
    await end(second, 'SIGKILL')
    expect(warnings(await spawnService({ cwd }))).toEqual([])
  })

  test('does not wait for a process that has the database locked exclusively', async () => {
    const cwd = temporaryFolder()
    const first = await spawnService({ cwd })
    await createUser(first.url)
    await end(first, 'SIGKILL')
    const other = new Database(join(cwd, 'data/users.db'))
    onTestFinished(() => {
      other.close()
    })
    other.exec('BEGIN')
    other.prepare('SELECT count(*) FROM users').get()
    expect(warnings(await spawnService({ cwd }))).toEqual([])
  })
})
