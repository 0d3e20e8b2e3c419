import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { USERS } from '../../../../src/storage/copy/copied-tables.ts'
import { openPostgresCopySource } from '../../../../src/storage/postgres/copy/postgres-copy-source.ts'
import { openPostgresCopyTarget } from '../../../../src/storage/postgres/copy/postgres-copy-target.ts'
import { checkPostgresDatabase } from '../../../../src/storage/postgres/maintenance/check-postgres-database.ts'
import { migrateDatabase } from '../../../../src/storage/postgres/open-postgres-storage.ts'
import { examine } from '../../../../src/storage/sqlite/maintenance/find-faults.ts'
import {
  copiedContent,
  copyInChunks,
  interruptCopy,
  makeCopySource,
  openSource,
  openTarget,
  REFUSALS,
} from '../../../support/copy-databases.ts'
import { execute } from '../../../support/databases.ts'
import { temporaryFolder } from '../../../support/open-test-app.ts'
import { startPgBouncer } from '../../../support/pgbouncer.ts'
import { createPostgresCluster } from '../../../support/postgres-cluster.ts'
import { insertUser, openStorage } from '../../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  locationOf,
  newPostgresDatabase,
  queryPostgres,
} from '../../../support/postgres-databases.ts'
import { canStartClusters, canUsePgBouncer } from '../../../support/programs.ts'
import { untilPasses } from '../../../support/until.ts'

const TIME = '2026-01-31T12:00:00.000Z'

/** Release 1.0.0 committed each chunk of rows. */
const LEFT_BY_RELEASE_1 = `
  INSERT INTO unfinished_copies (singleton) VALUES (1);
  ${insertUser('user3@x.co')};
  INSERT INTO users_words (id, words) SELECT id, to_tsvector('simple', name) FROM users;
  INSERT INTO idempotency_keys (key_hash, user_id, expires_at) VALUES (sha256('x'), 1, 1);
  INSERT INTO bans (key_hash, rule, client_key, ends_at, lasts_ms) VALUES (sha256('x'), 'login', '::1', 1, 1);
  INSERT INTO api_keys (name, key_hash, scopes, created_at) VALUES ('web', sha256('x'), 'users:read', 1)`

async function makeSource(): Promise<string> {
  const path = join(temporaryFolder(), 'from.db')
  await makeCopySource(path)
  return path
}

/** A database as a service leaves it that nobody has used. */
async function makeEmpty(): Promise<string> {
  const url = await copyPostgresTemplate()
  await serveOnce(url)
  return url
}

async function serveOnce(url: string): Promise<void> {
  await (await openStorage(url)).close()
}

/** All that `copy` copies, by way of a copy in SQLite. */
async function contentOf(from: string): Promise<ReturnType<typeof copiedContent>> {
  const to = join(temporaryFolder(), 'content.db')
  await copyInChunks({ from, to })
  return copiedContent(to)
}

async function faultsOf(url: string): Promise<readonly string[]> {
  return (await checkPostgresDatabase(locationOf(url))).faults
}

describe('a copy between SQLite and PostgreSQL', () => {
  test('arrives equal after two PostgreSQL databases, and gives out no used id', async () => {
    const from = await makeSource()
    const [first, second] = [await newPostgresDatabase(), await newPostgresDatabase()]
    const back = join(temporaryFolder(), 'back.db')
    const ways = [
      [from, first],
      [first, second],
      [second, back],
    ]
    for (const [from = '', to = ''] of ways) {
      const { tables, lastId } = await copyInChunks({ from, to })
      expect(tables.map(({ label, rows }) => `${rows} ${label}`)).toEqual([
        ...['23 users', '14 idempotency keys', '5 bans', '5 API keys'],
      ])
      expect(lastId).toBe(25)
    }
    expect(copiedContent(back)).toEqual(copiedContent(from))
    await openStorage(first, { ifMissing: 'refuse' })
    const [row] = await queryPostgres(
      first,
      `${insertUser('a@x.co')} RETURNING id, (SELECT sum(user_count)::int FROM users_summary) AS before`,
    )
    expect(row).toEqual({ id: 26, before: 23 })
  })

  test('has one state of PostgreSQL, whatever is written meanwhile', async () => {
    const from = await newPostgresDatabase()
    const path = await makeSource()
    await copyInChunks({ from: path, to: from })
    const to = join(temporaryFolder(), 'to.db')
    let writes = 0
    await copyInChunks({ from, to }, target => ({
      add: async (table, rows) => {
        const change = `UPDATE users SET name = 'Changed ${writes++}'`
        const deletions = 'DELETE FROM users WHERE id = 23; DELETE FROM bans; DELETE FROM api_keys'
        await queryPostgres(from, `${change}; ${deletions}`)
        await target.add(table, rows)
      },
    }))
    expect(writes).toBeGreaterThan(2)
    expect(copiedContent(to)).toEqual(copiedContent(path))
  })

  test('may be interrupted at any write, and starts over with what has changed', async () => {
    const at = { from: await makeSource(), to: await makeEmpty() }
    const changes = [
      `UPDATE users SET name = 'Changed', name_lower = 'changed' WHERE id = 3`,
      'DELETE FROM users WHERE id IN (1, 5, 6); UPDATE bans SET ends_at = 9',
      `DELETE FROM idempotency_keys WHERE user_id > 4; DELETE FROM api_keys WHERE name = 'web'`,
      `UPDATE users SET email = id || '@old.co'; UPDATE users SET email = 'user' || (24 - id) || '@x.co'`,
    ]
    for (const [index, sql] of changes.entries()) {
      // Some time passes until the server gives up the lock of a connection that was closed.
      await untilPasses(async () => expect(await interruptCopy(at, 3 + 2 * index)).toBe(true))
      execute(at.from, sql)
    }
    await expect(openStorage(at.to)).rejects.toThrow(REFUSALS.unfinished)
    await expect(openSource(at.to)).rejects.toThrow(REFUSALS.unfinished)
    await expect(migrateDatabase(locationOf(at.to))).rejects.toThrow(REFUSALS.unfinished)
    expect(await faultsOf(at.to)).toEqual([REFUSALS.unfinished])
    await untilPasses(() => copyInChunks(at))
    expect(await contentOf(at.to)).toEqual(copiedContent(at.from))
    expect(await faultsOf(at.to)).toEqual([])
  })

  test.skipIf(!canUsePgBouncer)('goes through PgBouncer in transaction pooling mode', async () => {
    const from = await makeSource()
    const to = await startPgBouncer(await newPostgresDatabase())
    await copyInChunks({ from, to })
    // Some time passes until PgBouncer gives up the lock of the first copy.
    await untilPasses(async () => {
      expect(await contentOf(to)).toEqual(copiedContent(from))
    })
  })

  test('the source needs no right to write, the target no right to change the schema, also over rows of release 1.0.0', async () => {
    const path = await makeSource()
    const [from, to] = [await newPostgresDatabase(), await makeEmpty()]
    await copyInChunks({ from: path, to: from })
    const role = `copier_${new URL(from).pathname.slice(1)}`
    const inRole = (url: string) => {
      const changed = new URL(url)
      changed.searchParams.set('options', `-c role=${role}`)
      return changed.href
    }
    await queryPostgres(from, `CREATE ROLE ${role}`)
    onTestFinished(async () => {
      await queryPostgres(from, `DROP OWNED BY ${role}`)
      await queryPostgres(to, `DROP OWNED BY ${role}; DROP ROLE ${role}`)
    })
    const grant = (rights: string) =>
      `GRANT ${rights} ON ALL TABLES IN SCHEMA public TO ${role};
       GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role}`
    await queryPostgres(from, grant('SELECT'))
    await queryPostgres(to, grant('SELECT, INSERT, UPDATE, DELETE'))
    const at = { from: inRole(from), to: inRole(to) }
    await queryPostgres(to, LEFT_BY_RELEASE_1)
    expect(await interruptCopy(at, 12)).toBe(true)
    await copyInChunks(at)
    expect(await contentOf(to)).toEqual(copiedContent(path))
    expect(await faultsOf(to)).toEqual((await examine(path)).faults)
  })
})

describe('the source', () => {
  test('is refused if it does not exist, or without the schema of this release', async () => {
    const nowhere = new URL(await newPostgresDatabase())
    nowhere.pathname = '/nowhere'
    const missing = 'the server has no database "nowhere": create it'
    await expect(openSource(nowhere.href)).rejects.toThrow(missing)
    const url = await newPostgresDatabase()
    await expect(openSource(url)).rejects.toThrow('it has no tables of this service')
    await serveOnce(url)
    await queryPostgres(url, `UPDATE schema_migrations SET hash = 'x'`)
    await expect(openSource(url)).rejects.toThrow(REFUSALS.unreleased)
    await expect(openTarget(url)).rejects.toThrow(REFUSALS.unreleased)
  })

  test('may be the source of two copies, or the target of one', async () => {
    const url = await makeEmpty()
    const [first, second] = [await openSource(url), await openSource(url)]
    await expect(openTarget(url)).rejects.toThrow(
      'another copy that is running uses it, or it is also the source',
    )
    await first.close()
    await second.close()
    // A server notices the end of a connection some time later.
    const target = await untilPasses(() => openTarget(url))
    await expect(openSource(url)).rejects.toThrow('it is the target of a copy that is running')
    await expect(openTarget(url)).rejects.toThrow('another copy that is running uses it')
    await target.close()
    await (await untilPasses(() => openTarget(url))).close()
  })
})

describe('the target', () => {
  const uses = {
    'a user': insertUser('a@x.co'),
    'an idempotency key': `INSERT INTO idempotency_keys (key_hash, user_id, expires_at)
      VALUES (sha256('x'), 1, 1)`,
    'a ban': `INSERT INTO bans (key_hash, rule, client_key, ends_at, lasts_ms)
      VALUES (sha256('x'), 'login', '::1', 1, 1)`,
    'an API key': `INSERT INTO api_keys (name, key_hash, scopes, created_at)
      VALUES ('web', sha256('x'), 'users:read', 1)`,
    'a used id': `SELECT nextval('users_id_seq')`,
  }

  test.each(Object.entries(uses))('is refused with %s', async (_, sql) => {
    const to = await makeEmpty()
    await queryPostgres(to, sql)
    const copying = copyInChunks({ from: await makeSource(), to })
    await expect(copying).rejects.toThrow(/^it is not empty: /)
    await serveOnce(to)
  })

  test('has nothing but the mark if its connection is lost', async () => {
    const [from, to] = [await makeSource(), await makeEmpty()]
    const copying = copyInChunks({ from, to }, () => ({
      complete: async () => {
        await queryPostgres(
          to,
          `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
        )
      },
    }))
    await expect(copying).rejects.toThrow(/^(?:it cannot be reached|the server refuses it): /)
    const [row] = await queryPostgres(
      to,
      `SELECT (SELECT count(*)::int FROM users) AS users, (SELECT count(*)::int FROM unfinished_copies) AS marks`,
    )
    expect(row).toEqual({ users: 0, marks: 1 })
    await expect(serveOnce(to)).rejects.toThrow(REFUSALS.unfinished)
  })

  test.each([
    ['a name that is empty', ['', '', 'b@x.co', null, TIME, TIME], /users_name_chars/],
    ['a name with a NUL', ['B\u0000', 'b', 'b@x.co', null, TIME, TIME], /0x00/],
    ['the e-mail of another', ['B', 'b', 'ANN@x.co', null, TIME, TIME], /users_email_unique/],
  ] as const)('names the user with %s', async (_, columns, reason) => {
    const url = await makeEmpty()
    const target = await openTarget(url)
    await target.begin()
    const ann = [1, 'Ann', 'ann', 'ann@x.co', null, TIME, TIME] as const
    const added = target.add(USERS, [ann, [42, ...columns]])
    await expect(added).rejects.toThrow(/^it cannot hold user 42: /)
    await expect(added).rejects.toThrow(reason)
    await target.close()
    // A server notices the end of a connection some time later.
    const next = await untilPasses(() => openTarget(url))
    onTestFinished(next.close)
    await next.begin()
    await next.add(USERS, [ann])
    expect(await next.next(USERS, 10)).toEqual([ann])
  })

  test('names another row that it cannot hold', async () => {
    const [from, to] = [await makeSource(), await makeEmpty()]
    execute(from, `UPDATE idempotency_keys SET user_version = 'a' || char(0) WHERE user_id = 7`)
    const copying = copyInChunks({ from, to })
    await expect(copying).rejects.toThrow(/^it cannot hold an idempotency key of user 7: .*0x00/)
  })

  test('keeps writes of a service out while it is filled and verified', async () => {
    const [from, to] = [await makeSource(), await makeEmpty()]
    const insert = `SET lock_timeout = '20ms'; ${insertUser('late@x.co')}`
    const refused: unknown[] = []
    const tryToInsert = async () => {
      refused.push(await queryPostgres(to, insert).catch(error => error.code))
    }
    await copyInChunks({ from, to }, target => ({
      add: async (table, rows) => {
        if (table === USERS) await tryToInsert()
        await target.add(table, rows)
      },
      lastId: async () => {
        await tryToInsert()
        return target.lastId()
      },
    }))
    expect(refused).toEqual(Array.from({ length: 7 }, () => '55P03'))
    expect(await contentOf(to)).toEqual(copiedContent(from))
  })
})

test.skipIf(!canStartClusters)(
  'a frozen server ends the copy with an error, as source and as target',
  async () => {
    const cluster = await createPostgresCluster()
    onTestFinished(() => cluster.remove())
    const target = await openPostgresCopyTarget(locationOf(cluster.url()), 1000)
    onTestFinished(target.close)
    await queryPostgres(cluster.url(), 'CREATE DATABASE source')
    await serveOnce(cluster.url('source'))
    const source = await openPostgresCopySource(locationOf(cluster.url('source')), 1000)
    onTestFinished(source.close)
    cluster.freeze()
    const silent = 'it cannot be reached: no answer in 1 s'
    await expect(source.lastId()).rejects.toThrow(silent)
    await expect(target.begin()).rejects.toThrow(silent)
    await expect(target.lastId()).rejects.toThrow(silent)
  },
)
