import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import {
  copiedContent,
  copyBetween,
  interruptCopy,
  makeCopySource,
  openEnd,
  REFUSALS,
} from '../support/copy-databases.ts'
import { execute } from '../support/databases.ts'
import { byEngine } from '../support/engine.ts'
import { databaseIn } from '../support/new-database.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { executeSql, selectRows } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

/** A filled file of SQLite, an empty database of the engine, and another file. */
async function place(users?: number) {
  const folder = temporaryFolder()
  const [file, back] = ['from.db', 'back.db'].map(name => join(folder, name)) as [string, string]
  await makeCopySource(file, users)
  return { file, database: await databaseIn(folder, 'to.db'), back }
}

type Place = Awaited<ReturnType<typeof place>>

/** There and back: the engine of this test is the target, and then the source. */
const there = ({ file, database }: Place) => ({ from: file, to: database })
const back = ({ database, back }: Place) => ({ from: database, to: back })

describe('a copy', () => {
  test.each([25, 2500])('of %i users has everything, in either direction', async users => {
    const at = await place(users)
    const first = await copyBetween(there(at))
    const second = await copyBetween(back(at))
    expect(copiedContent(at.back)).toEqual(copiedContent(at.file))
    expect(second).toEqual(first)
    expect(first.tables.map(({ name, rows }) => [name, rows])).toEqual([
      ['users', users - 2],
      ['idempotency_keys', Math.floor(users / 2) + 1],
      ['bans', 5],
      ['api_keys', 5],
      ['webhooks', 2],
    ])
    expect(first.lastId).toBe(users)
  })

  test('starts over after an interruption anywhere, and again, and is refused by services until it is complete', async () => {
    const at = await place()
    const expected = copiedContent(at.file)
    let piece = 2
    for (; ; piece++) {
      if (!(await interruptCopy(there(at), piece))) break
      await expect(openTestApp({ env: { DATABASE_URL: at.database } })).rejects.toThrow()
      await expect(openEnd(at.database, 'source')).rejects.toThrow(REFUSALS.unfinished)
      // A second time, at one of the first pieces.
      await interruptCopy(there(at), 2 + (piece % 3))
    }
    expect(piece).toBeGreaterThan(10)
    await copyBetween(back(at))
    expect(copiedContent(at.back)).toEqual(expected)
  })

  test('that starts over takes what has changed, also addresses that moved to other users', async () => {
    const at = await place()
    expect(await interruptCopy(there(at), 7)).toBe(true)
    execute(
      at.file,
      `UPDATE users SET email = id || '@old.co'; UPDATE users SET email = 'user' || (24 - id) || '@x.co';
       DELETE FROM users WHERE id IN (1, 5, 6); DELETE FROM idempotency_keys WHERE user_id > 4;
       UPDATE bans SET ends_at = 4000000000009; DELETE FROM api_keys WHERE name = 'web'`,
    )
    await copyBetween(there(at))
    await copyBetween(back(at))
    expect(copiedContent(at.back)).toEqual(copiedContent(at.file))
  })

  const changes = {
    'it was written to meanwhile': `UPDATE users SET name = 'Late', updated_at = '2031-01-01T00:00:00.000Z' WHERE id = 3`,
    'after the copy its users (23) differ from those of the source (23)': `UPDATE users SET password_digest = '$late' WHERE id = 3`,
    'after the copy its API keys (5) differ from those of the source (4)': `DELETE FROM api_keys WHERE name = 'web'`,
    'after the copy its webhooks (2) differ': `UPDATE webhooks SET url = 'https://late.example/' WHERE name = 'a'`,
    'after the copy its bans (5) differ': `UPDATE bans SET lasts_ms = 77 WHERE rule = 'login'`,
    'after the copy its signing keys (1) differ': `UPDATE signing_keys SET key = randomblob(32)`,
  }

  test.each(Object.entries(changes))(
    'says "%s" of a source that is written to',
    async (why, sql) => {
      const at = await place()
      let pieces = 0
      const copying = copyBetween(there(at), () => ({
        explain: async work => {
          // Once everything has been read.
          if (++pieces === 7) execute(at.file, sql)
          return work()
        },
      }))
      await expect(copying).rejects.toThrow(why)
      await expect(openEnd(at.database, 'source')).rejects.toThrow(REFUSALS.unfinished)
      await copyBetween(there(at))
    },
  )

  test('stays unfinished if another program writes to the target', async () => {
    const at = await place()
    let pieces = 0
    const copying = copyBetween(there(at), () => ({
      explain: async work => {
        if (++pieces === 7) await executeSql(at.database, 'DELETE FROM users WHERE id = 7')
        return work()
      },
    }))
    await expect(copying).rejects.toThrow(
      'after the copy its users (22) differ from those of the source (23): stop',
    )
    await expect(openEnd(at.database, 'source')).rejects.toThrow(REFUSALS.unfinished)
  })

  test('is not completed by an earlier one that still runs', async () => {
    const at = await place()
    const { copies, close } = await openEnd(at.database, 'target')
    await copies.begin('one')
    await copies.begin('two')
    expect([await copies.complete('one'), await copies.complete('two')]).toEqual([false, true])
    await close()
  })

  test('has a feed of all its users, and gives out no used id', async () => {
    const at = await place()
    await copyBetween(there(at))
    const app = await openTestApp({ env: { DATABASE_URL: at.database } })
    // On PostgreSQL once no older transaction of the server is open.
    await untilPasses(async () => {
      const { body } = await app.http.get('/users/changes?limit=1000').expect(200)
      expect(body.data).toHaveLength(23)
    })
    expect((await app.http.post('/users').send(newUserBody())).body.id).toBeGreaterThan(25)
  })
})

describe('the target', () => {
  const time = `'2026-01-31T12:00:00.000Z'`
  const bytes = byEngine({ sqlite: 'zeroblob(32)', postgres: `sha256('x')` })
  const uses = {
    'a user': `INSERT INTO users (name, name_lower, email, created_at, updated_at)
      VALUES ('A', 'a', 'a@x.co', ${time}, ${time})`,
    'an idempotency key': `INSERT INTO idempotency_keys (key_hash, user_id, expires_at) VALUES (${bytes}, 1, 1)`,
    'an API key': `INSERT INTO api_keys (name, key_hash, scopes, created_at) VALUES ('web', ${bytes}, 'users:read', 1)`,
    'a used id': `INSERT INTO users (name, name_lower, email, created_at, updated_at)
      VALUES ('A', 'a', 'a@x.co', ${time}, ${time}); DELETE FROM users`,
  }

  test.each(Object.entries(uses))('is refused with %s, and stays as it was', async (_, sql) => {
    const at = await place()
    await (await openEnd(at.database, 'target')).close()
    await executeSql(at.database, sql)
    const before = await selectRows(at.database, 'SELECT * FROM users')
    await expect(copyBetween(there(at))).rejects.toThrow(REFUSALS.notEmpty)
    expect(await selectRows(at.database, 'SELECT * FROM users')).toEqual(before)
    await (await openEnd(at.database, 'source')).close()
  })
})
