import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { CopiedRow } from '../../../src/storage/copy/copied-tables.ts'
import type { CopyTarget } from '../../../src/storage/copy/copy-ends.ts'
import { examine } from '../../../src/storage/sqlite/maintenance/find-faults.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { makeDatabase } from '../../faults/databases.ts'
import {
  copiedContent,
  copyInChunks,
  interruptCopy,
  makeCopySource,
  openSource,
  openTarget,
  REFUSALS,
} from '../../support/copy-databases.ts'
import { execute, modeOf } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

async function place() {
  const folder = temporaryFolder()
  const at = { from: join(folder, 'from.db'), to: join(folder, 'new', 'to.db') }
  await makeCopySource(at.from)
  return at
}

const open = (path: string) => openSqlite({ path, now: Date.now })

/** As a service leaves it that nobody has used. */
async function makeEmpty(path: string): Promise<void> {
  ;(await open(path)).close()
}

describe('a copy', () => {
  test.each([1, 23])('in chunks of %i rows has everything', async chunkRows => {
    const at = await place()
    await copyInChunks(at, undefined, chunkRows)
    expect(copiedContent(at.to)).toEqual(copiedContent(at.from))
    expect([modeOf(join(at.to, '..')), modeOf(at.to)]).toEqual([0o700, 0o600])
  })

  test('has one state, whatever is written to the source meanwhile', async () => {
    const at = await place()
    const before = copiedContent(at.from)
    let writes = 0
    await copyInChunks(at, target => ({
      add: async (table, rows) => {
        execute(
          at.from,
          `UPDATE users SET name = 'Changed ${writes++}'; DELETE FROM users WHERE id = 23;
           DELETE FROM bans WHERE rule = 'login'; DELETE FROM api_keys`,
        )
        await target.add(table, rows)
      },
    }))
    expect(writes).toBeGreaterThan(2)
    expect(copiedContent(at.to)).toEqual(before)
  })

  test('starts over after an interruption at any write, and again', async () => {
    const at = await place()
    const expected = copiedContent(at.from)
    const examined = await examine(at.from)
    let write = 1
    for (; ; write++) {
      const to = `${at.to}.${write}`
      if (!(await interruptCopy({ ...at, to }, write))) break
      // Interrupted a second time, at each of its first writes.
      await interruptCopy({ ...at, to }, 1 + (write % 4))
      await copyInChunks({ ...at, to })
      expect(copiedContent(to)).toEqual(expected)
      expect(await examine(to, { withWords: true })).toEqual(examined)
    }
    expect(write).toBeGreaterThan(10)
  })

  test('that starts over takes what has changed, also addresses that moved to other users', async () => {
    const at = await place()
    await makeEmpty(at.to)
    expect(await interruptCopy(at, 10)).toBe(true)
    execute(
      at.from,
      `UPDATE users SET email = id || '@old.co'; UPDATE users SET email = 'user' || (24 - id) || '@x.co';
       DELETE FROM users WHERE id IN (1, 5, 6); DELETE FROM idempotency_keys WHERE user_id > 4;
       UPDATE bans SET ends_at = 9; DELETE FROM api_keys WHERE name = 'web'`,
    )
    await copyInChunks(at)
    expect(copiedContent(at.to)).toEqual(copiedContent(at.from))
  })

  /** Reads the rows of one table otherwise. */
  const reading =
    (name: string, change: (rows: readonly CopiedRow[]) => readonly CopiedRow[]) =>
    (target: CopyTarget): Partial<CopyTarget> => ({
      next: async (table, limit) => {
        const rows = await target.next(table, limit)
        return table.name === name ? change(rows) : rows
      },
    })

  const losses: Record<string, (target: CopyTarget) => Partial<CopyTarget>> = {
    'it has 22 users instead of 23': reading('users', rows => rows.filter(([id]) => id !== 7)),
    'its users differ from those of the source': reading('users', rows =>
      rows.map(([id, , ...rest]) => [id ?? null, 'Other', ...rest]),
    ),
    'its bans differ from those of the source': reading('bans', rows =>
      rows.map(([rule = '', client = '', ends = 0]) => [rule, client, ends, 8]),
    ),
    'it has 4 API keys instead of 5': reading('api_keys', rows =>
      rows.filter(([name]) => name !== 'web'),
    ),
    'its signing keys differ from those of the source': reading('signing_keys', rows =>
      rows.map(([name = '']) => [name, Buffer.alloc(32)]),
    ),
    'it would give out used ids again': () => ({ lastId: async () => 24 }),
  }

  test.each(Object.entries(losses))('stays unfinished if %s', async (message, change) => {
    const at = await place()
    await expect(copyInChunks(at, change, 100)).rejects.toThrow(
      `after the copy ${message}: make sure that no other program writes to it, and run \`copy\` again`,
    )
    await expect(open(at.to)).rejects.toThrow(REFUSALS.unfinished)
  })
})

describe('the source', () => {
  test.each([
    ['empty', '', 'it is empty'],
    ['no database', 'text'.repeat(1000), 'it is not a SQLite database'],
  ])('is refused if it is %s', async (_what, text, message) => {
    const path = join(temporaryFolder(), 'users.db')
    writeFileSync(path, text)
    await expect(openSource(path)).rejects.toThrow(message)
  })

  test.each(['0', '9007199254740992'])('is refused with a user whose id is %s', async id => {
    const { from } = await place()
    execute(from, `UPDATE users SET id = ${id} WHERE id = 3`)
    await expect(openSource(from)).rejects.toThrow(
      `user ${id} cannot be copied: ids are from 1 to 9007199254740991`,
    )
  })
})

test('source and target are refused if they are of an unreleased version or another program, and stay as they were', async () => {
  const folder = temporaryFolder()
  const [early, cats] = [join(folder, 'early.db'), join(folder, 'cats.db')]
  makeDatabase(early, { users: 3 })
  execute(early, `UPDATE schema_migrations SET hash = 'x'`)
  execute(cats, 'CREATE TABLE cats (id INTEGER)')
  const before = [early, cats].map(path => readFileSync(path))
  for (const openEnd of [openSource, openTarget]) {
    await expect(openEnd(early)).rejects.toThrow(REFUSALS.unreleased)
    await expect(openEnd(cats)).rejects.toThrow('of another program')
  }
  expect([early, cats].map(path => readFileSync(path))).toEqual(before)
})

describe('the target', () => {
  const time = `'2026-01-31T12:00:00.000Z'`
  const uses = {
    'a user': `INSERT INTO users (name, name_lower, email, created_at, updated_at)
      VALUES ('A', 'a', 'a@x.co', ${time}, ${time})`,
    'an idempotency key': `INSERT INTO idempotency_keys (key_hash, user_id, expires_at) VALUES (zeroblob(32), 1, 1)`,
    'a ban': `INSERT INTO bans (rule, client_key, ends_at, lasts_ms) VALUES ('login', '::1', 1, 1)`,
    'an API key': `INSERT INTO api_keys (name, key_hash, scopes, created_at)
      VALUES ('web', zeroblob(32), 'users:read', 1)`,
    'a used id': `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', 1)`,
  }

  test.each(Object.entries(uses))('is refused with %s, and stays as it was', async (_, sql) => {
    const at = await place()
    await makeEmpty(at.to)
    execute(at.to, sql)
    const before = copiedContent(at.to)
    await expect(copyInChunks(at)).rejects.toThrow(
      'it is not empty: it has users, idempotency keys, bans or API keys, or had users',
    )
    expect(copiedContent(at.to)).toEqual(before)
    await makeEmpty(at.to)
  })

  test('is refused if a service has it open, and no other process can read it meanwhile', async () => {
    const { to } = await place()
    const target = await openTarget(to)
    const other = new Database(to, { timeout: 0 })
    expect(() => other.prepare('SELECT * FROM users')).toThrow('database is locked')
    other.close()
    await target.close()
    const service = await open(to)
    onTestFinished(() => {
      service.close()
    })
    await expect(openTarget(to)).rejects.toThrow('a process has it open: stop the service first')
  })

  test('that is unfinished is refused by everything but `copy`', async () => {
    const at = await place()
    expect(await interruptCopy(at, 2)).toBe(true)
    const before = readFileSync(at.to)
    await expect(open(at.to)).rejects.toThrow(REFUSALS.unfinished)
    await expect(openSource(at.to)).rejects.toThrow(REFUSALS.unfinished)
    expect(readFileSync(at.to).equals(before)).toBe(true)
    expect(await examine(at.to)).toMatchObject({ faults: [REFUSALS.unfinished] })
    await copyInChunks(at)
    await makeEmpty(at.to)
  })
})
