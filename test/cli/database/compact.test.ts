import { chmodSync, readFileSync, statSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openPlace } from '../../support/command-place.ts'
import { emailsIn, execute, filesOf, modeOf } from '../../support/databases.ts'

const USERS = 3000

test.each(['WAL', 'DELETE'])(
  'compact returns free space in mode %s, keeps the file, its mode and all users, and prints the sizes',
  async mode => {
    const { path, run } = openPlace({ users: USERS })
    execute(path, `PRAGMA journal_mode = ${mode}; DELETE FROM users WHERE id % 3 > 0`)
    chmodSync(path, 0o640)
    const before = statSync(path)
    const finished = await run('compact')
    const after = statSync(path)
    const [from, to] = [before, after].map(({ size }) => (size / 1e6).toFixed(1))
    const stdout = `./data/users.db: ${from} MB before, ${to} MB now\n`
    // Deletions stay in the feed of changes.
    expect(finished).toEqual({ code: 0, stdout, stderr: '' })
    expect(after.size).toBeLessThan(before.size * 0.6)
    expect([after.ino, modeOf(path)]).toEqual([before.ino, 0o640])
    // In WAL: https://www.sqlite.org/fileformat.html#file_format_version_numbers
    expect(readFileSync(path)[18] === 2).toBe(mode === 'WAL')
    expect(filesOf(path)).toEqual(['users.db'])
    expect((await run('check')).stdout).toBe('./data/users.db: sound\n')
    expect(emailsIn(path)).toHaveLength(USERS / 3)
    const again = { bytes_before: after.size, bytes_after: after.size }
    const printed = JSON.parse((await run('compact', '--json')).stdout)
    expect(printed).toEqual({ database: './data/users.db', ...again })
  },
)
