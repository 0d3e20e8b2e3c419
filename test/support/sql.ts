import { onTestFinished } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { execute, withSqlite } from './databases.ts'
import { byEngine, engine } from './engine.ts'
import { connectToPostgres, queryPostgres, withPostgres } from './postgres-databases.ts'

/** A row by the names of its columns. */
export type SqlRow = Record<string, unknown>

/** Changes the database of a service behind its back. The SQL is for both engines. */
export async function executeSql(databaseUrl: string, sql: string): Promise<void> {
  if (engine === 'postgres') await queryPostgres(databaseUrl, sql)
  else execute(databaseUrl, sql)
}

/** Reads from the database of a service. The SQL is for both engines. */
export async function selectRows(databaseUrl: string, sql: string): Promise<SqlRow[]> {
  if (engine === 'postgres') return queryPostgres(databaseUrl, sql)
  return withSqlite(databaseUrl, database => database.prepare<[], SqlRow>(sql).all())
}

/** Runs SQL for both engines. A SELECT resolves to its rows. */
export async function runSql(databaseUrl: string, sql: string): Promise<SqlRow[]> {
  if (engine === 'postgres' || /^\s*SELECT\b/.test(sql)) return selectRows(databaseUrl, sql)
  execute(databaseUrl, sql)
  return []
}

const LOCK = 'BEGIN; LOCK TABLE users, bans, imports IN SHARE ROW EXCLUSIVE MODE'

/** Locks the database of a service, so that its writes wait and its reads do not, until `release` or the end of the test. */
export async function holdWrites(databaseUrl: string) {
  const release = engine === 'postgres' ? await lockTables(databaseUrl) : lockFile(databaseUrl)
  let released: Promise<void> | undefined
  const releaseOnce = () => {
    released ??= release()
    return released
  }
  onTestFinished(releaseOnce)
  return { release: releaseOnce }
}

async function lockTables(databaseUrl: string): Promise<() => Promise<void>> {
  const client = await connectToPostgres(databaseUrl)
  await client.query(LOCK)
  return () => client.end()
}

function lockFile(path: string): () => Promise<void> {
  const database = new Database(path)
  database.exec('BEGIN IMMEDIATE')
  return async () => {
    database.close()
  }
}

/** All rows of a database by table. */
export async function storedTables(databaseUrl: string): Promise<Record<string, SqlRow[]>> {
  if (engine === 'postgres') {
    return withPostgres(databaseUrl, client =>
      readTables(async sql => (await client.query(sql)).rows),
    )
  }
  return readTables(sql => selectRows(databaseUrl, sql))
}

async function readTables(
  select: (sql: string) => Promise<SqlRow[]>,
): Promise<Record<string, SqlRow[]>> {
  const tables: Record<string, SqlRow[]> = {}
  for (const { name } of await select(byEngine(SELECT_TABLES))) {
    tables[String(name)] = await select(`SELECT * FROM ${name}`)
  }
  return tables
}

const SELECT_TABLES = {
  // The index of words cannot be read as a table. Its content is in tables of its own.
  sqlite: `SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'users_words'`,
  postgres: 'SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()',
}

/** All that a database stores: the file of SQLite, or the text of all rows. */
export async function storedBytes(databaseUrl: string): Promise<Buffer> {
  if (engine === 'sqlite') {
    return withSqlite(databaseUrl, database => Buffer.from(database.serialize()))
  }
  const rows = Object.values(await storedTables(databaseUrl)).flat()
  return Buffer.concat(rows.flatMap(row => Object.values(row).map(toBytes)))
}

function toBytes(value: unknown): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(String(value))
}
