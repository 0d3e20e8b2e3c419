import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { createPostgresEngine } from '../../src/storage/postgres/postgres-storage.ts'
import { createSqliteEngine } from '../../src/storage/sqlite/sqlite-storage.ts'
import type { OpenStorageOptions, Storage, StorageEngine } from '../../src/storage/storage.ts'
import { engine } from './engine.ts'
import { databaseIn } from './new-database.ts'
import { temporaryFolder } from './open-test-app.ts'
import { locationOf, newPostgresDatabase } from './postgres-databases.ts'
import { runSql, type SqlRow } from './sql.ts'

/** A database of the engine of this suite. */
export interface StoredDatabase {
  readonly databaseUrl: string
  readonly engine: StorageEngine
  /** Runs SQL behind the back of whoever has it open. A SELECT resolves to its rows. */
  sql(text: string): Promise<SqlRow[]>
  /** Whether it is there, with a schema. */
  exists(): Promise<boolean>
}

export interface Stored extends StoredDatabase {
  readonly storage: Storage
  /** Opens the same database as another process does, by default with the same options. It is closed after the test. */
  again(options?: Partial<OpenStorageOptions>): Promise<Storage>
}

/** Opens a new database as a service does. It is closed after the test. */
export async function openStored(options: Partial<OpenStorageOptions> = {}): Promise<Stored> {
  const database = databaseAt(await databaseIn(temporaryFolder()))
  const again = (others = options) => openEngine(database.engine, others)
  return { ...database, storage: await again(), again }
}

/** A database that no engine has opened yet. */
export async function newStoredDatabase(): Promise<StoredDatabase> {
  if (engine === 'postgres') return databaseAt(await newPostgresDatabase())
  return databaseAt(await databaseIn(temporaryFolder()))
}

function databaseAt(databaseUrl: string): StoredDatabase {
  const sql = (text: string) => runSql(databaseUrl, text)
  if (engine === 'sqlite') {
    const exists = async () => existsSync(databaseUrl)
    return { databaseUrl, engine: createSqliteEngine(databaseUrl), sql, exists }
  }
  return {
    ...{ databaseUrl, engine: createPostgresEngine(locationOf(databaseUrl)), sql },
    exists: async () => (await sql(`SELECT FROM pg_tables WHERE tablename = 'users'`)).length > 0,
  }
}

/** Opens a database as a process of its own does. `now` replaces all clocks. It is closed after the test. */
export async function openEngine(
  engine: Pick<StorageEngine, 'open'>,
  { now = Date.now, ...options }: Partial<OpenStorageOptions> = {},
): Promise<Storage> {
  const usual = {
    now,
    steadyNow: now,
    uptimeNow: now,
    serverNow: now,
    maxWaitingWrites: 10_000,
    ifMissing: 'create',
  } as const
  const storage = await engine.open({ ...usual, ...options })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= storage.close()
    return closed
  }
  onTestFinished(close)
  return { ...storage, close }
}

/** Opens a file of SQLite, or `:memory:`, in the same way. */
export function openSqliteStored(path: string, options?: Partial<OpenStorageOptions>) {
  return openEngine(createSqliteEngine(path), options)
}

/** A path of SQLite where nothing is. */
export const newSqlitePath = () => join(temporaryFolder(), 'users.db')
