import { existsSync, linkSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../../support/builders.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { run, spawnService } from '../../support/spawn-service.ts'

/** Ways to name a file, each with a function that prepares it. */
const WAYS: Readonly<Record<string, (cwd: string, name: string) => string>> = {
  'its path': (_cwd, name) => join('data', name),
  'a path with a detour': (_cwd, name) => `other/../data/${name}`,
  'a link to it': (cwd, name) => {
    symlinkSync(join('data', name), join(cwd, 'link'))
    return 'link'
  },
  'a link to a link to its folder': (cwd, name) => {
    symlinkSync('data', join(cwd, 'first'))
    symlinkSync(join(cwd, 'first'), join(cwd, 'second'))
    return join('second', name)
  },
}

/** A folder with a database of one user that no process has open. */
async function folderWithUser(): Promise<string> {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, 'other'))
  writeFileSync(join(cwd, 'users.ndjson'), '{"name":"Ann","email":"ann@example.com"}\n{}\n')
  await run({ cwd, args: ['import', 'users.ndjson'] })
  return cwd
}

function userCount(cwd: string): unknown {
  const database = new Database(join(cwd, 'data', 'users.db'))
  const count = database.prepare('SELECT count(*) FROM users').pluck().get()
  database.close()
  return count
}

describe.each(Object.entries(WAYS))('a file of the database by %s', (way, pathTo) => {
  test.each(way === 'its path' ? ['', '-wal', '-shm', '-journal'] : ['', '-wal'])(
    'is not written by import or export, whether it exists or not: users.db%s',
    async ending => {
      const cwd = await folderWithUser()
      const path = pathTo(cwd, `users.db${ending}`)
      const before = readdirSync(join(cwd, 'data'))
      const commands = [
        ['import', 'users.ndjson', '--on-conflict', 'skip', '--rejects', path],
        ['export', path, '--format', 'csv'],
        ['import', path, '--format', 'csv'],
      ]
      for (const args of commands) {
        const { code, stdout, stderr } = await run({ cwd, args })
        expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' })
        expect(stderr).toContain(`${path} is the database, or a file that belongs to it; `)
      }
      expect(readdirSync(join(cwd, 'data'))).toEqual(before)
      expect(userCount(cwd)).toBe(1)
    },
  )
})

test('import and export lose no acknowledged write of a running service, also through a hard link', async () => {
  const cwd = await folderWithUser()
  const service = await spawnService({ cwd })
  for (let user = 0; user < 5; user++) {
    const response = await fetch(`${service.url}/users`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(newUserBody({ email: `user${user}@example.com` })),
    })
    expect(response.status).toBe(201)
  }
  const wal = join(cwd, 'data', 'users.db-wal')
  expect(existsSync(wal)).toBe(true)
  linkSync(wal, join(cwd, 'again.ndjson'))
  for (const path of ['again.ndjson', wal]) {
    const rejecting = ['import', 'users.ndjson', '--restart', '--rejects', path]
    expect((await run({ cwd, args: rejecting })).code).toBe(2)
    expect((await run({ cwd, args: ['export', path, '--format', 'csv'] })).code).toBe(2)
  }
  service.process.kill('SIGKILL')
  await service.exited
  expect(userCount(cwd)).toBe(6)
})

test('import creates no rejects file at the path of a new database', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'users.ndjson'), '{}\n')
  for (const path of ['data/users.db', 'data/users.db-wal']) {
    const args = ['import', 'users.ndjson', '--rejects', path]
    expect((await run({ cwd, args })).code).toBe(2)
  }
  expect(readdirSync(cwd)).toEqual(['users.ndjson'])
})
