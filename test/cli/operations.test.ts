import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { makeDatabase } from '../faults/databases.ts'
import { filesOf } from '../support/databases.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN } from '../support/spawn-service.ts'

const GUIDE = fileURLToPath(new URL('../../docs/operations.md', import.meta.url))

test('docs/operations.md shows commands that work, in their order', async () => {
  const cwd = temporaryFolder()
  makeDatabase(join(cwd, 'data', 'users.db'), { users: 10 })
  mkdirSync(join(cwd, 'backups'))
  mkdirSync(join(cwd, 'bin'))
  const command = join(cwd, 'bin', 'user-records-service')
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 })
  const steps = [...readFileSync(GUIDE, 'utf8').matchAll(/^```sh\n([\s\S]*?)^```/gm)]
  const env = { PATH: `${join(cwd, 'bin')}:${process.env.PATH}`, HOME: process.env.HOME }
  let printed = ''
  for (const [, script = ''] of steps) {
    const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd, env })
    printed += stdout
  }
  expect(steps).toHaveLength(9)
  expect(printed.match(/: sound$/gm)).toHaveLength(2)
  expect(printed.match(/^urk_\w+$/gm)).toHaveLength(2)
  expect(printed).toMatch(/^revoked: web-2026$/m)
  expect(printed).toMatch(/ MB before, \S+ MB now$/m)
  expect(filesOf(join(cwd, 'backups', 'users.db'))).toEqual(['users.db'])
  expect(filesOf(join(cwd, 'data', 'users.db'))).toHaveLength(2)
  expect(filesOf(join(cwd, 'copies', 'users.db'))).toEqual(['users.db'])
  expect(filesOf(join(cwd, 'elsewhere', 'users.db'))).toEqual(['users.db'])
})
