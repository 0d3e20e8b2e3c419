import { readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openPlace } from '../../support/command-place.ts'
import { emailsIn } from '../../support/databases.ts'

test.each([
  ...['data/users.db', 'data/users.db-wal', 'data/users.db-journal', 'other/../data/users.db-shm'],
  ...['link/users.db', 'file.csv'],
])('%s, a file of the database, is not written by import or export', async path => {
  const { cwd, run } = openPlace()
  writeFileSync(join(cwd, 'users.ndjson'), '{"name":"Ann","email":"ann@example.com"}\n{}\n')
  await run('import', 'users.ndjson')
  symlinkSync('data', join(cwd, 'first'))
  symlinkSync(join(cwd, 'first'), join(cwd, 'link'))
  symlinkSync('data/users.db-wal', join(cwd, 'file.csv'))
  const before = readdirSync(join(cwd, 'data'))
  const commands = [
    ['import', 'users.ndjson', '--on-conflict', 'skip', '--rejects', path],
    ['export', path, '--format', 'csv'],
    ['import', path, '--format', 'csv'],
  ]
  for (const args of commands) {
    const { code, stdout, stderr } = await run(...args)
    expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' })
    expect(stderr).toContain(`${path} is the database, or a file that belongs to it; `)
  }
  expect(readdirSync(join(cwd, 'data'))).toEqual(before)
  expect(emailsIn(join(cwd, 'data', 'users.db'))).toHaveLength(1)
})
