import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

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
  await runCommand({ cwd, args: ['import', 'users.ndjson'] })
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
        const { code, stdout, stderr } = await runCommand({ cwd, args })
        expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' })
        expect(stderr).toContain(`${path} is the database, or a file that belongs to it; `)
      }
      expect(readdirSync(join(cwd, 'data'))).toEqual(before)
      expect(userCount(cwd)).toBe(1)
    },
  )
})

test('import creates no rejects file at the path of a new database', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'users.ndjson'), '{}\n')
  for (const path of ['data/users.db', 'data/users.db-wal']) {
    const args = ['import', 'users.ndjson', '--rejects', path]
    expect((await runCommand({ cwd, args })).code).toBe(2)
  }
  expect(readdirSync(cwd)).toEqual(['users.ndjson'])
})
