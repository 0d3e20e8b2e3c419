import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { COPIED_TABLES, type CopiedRow, type CopiedTable } from '../../copy/copied-tables.ts'
import { type CopySession, type CopySource, createCopySource } from '../../copy/copy-ends.ts'
import { migrationsFor } from '../../migrations.ts'
import { OLDER_SCHEMA, UnusableDatabase } from '../../unusable-database.ts'
import { LAST_GIVEN_ID } from '../../user-ids.ts'
import { fromStored } from '../ban-text.ts'
import { createClientConfigs } from '../client-config.ts'
import { openAnyClient } from '../host-client.ts'
import { readUsableHistory, refuseUnfinishedCopy } from '../inspect-schema.ts'
import { migrateDatabase } from '../open-postgres-storage.ts'
import type { Row, Session, Statement } from '../postgres-connections.ts'
import { asUnusable, unavailable } from '../postgres-errors.ts'

interface EndOptions {
  readonly location: PostgresLocation
  readonly end: 'source' | 'target'
  /** How long a statement may take. A frozen server would otherwise hold the copy for ever. */
  readonly answerTimeoutMs?: number | undefined
}

const CONNECT_TIMEOUT_MS = 5000

/** Much longer than a chunk takes. */
const ANSWER_TIMEOUT_MS = 60_000

const LOCK_TIMEOUT_MS = 10_000

/** From the end of a statement in the server to the end of a connection on which no answer came. */
const SILENCE_MS = 300

/** Each end waits for the other. Sorting all users would take longer than a statement may. */
const SET_UP = `
  SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
    set_config('idle_in_transaction_session_timeout', '0', true), set_config('plan_cache_mode', 'auto', true),
    set_config('enable_sort', 'off', true)`

/** An advisory lock of the schema: the object id of a table is unique in its database. The other half is any number. */
const LOCK_KEY = `('users'::regclass::oid::bigint << 32) + 1668247673`

const ENDS = {
  source: {
    begin: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
    lock: `SELECT pg_try_advisory_xact_lock_shared(${LOCK_KEY})`,
    refusal: 'it is the target of a copy that is running',
  },
  target: {
    begin: 'BEGIN',
    lock: `SELECT pg_try_advisory_xact_lock(${LOCK_KEY})`,
    refusal: 'another copy that is running uses it, or it is also the source',
  },
}

/** A service that runs although the database was empty must not change what is copied. */
const LOCK_TABLES = `
  LOCK TABLE ${COPIED_TABLES.map(({ name }) => name).join(', ')} IN SHARE ROW EXCLUSIVE MODE`

/** Opens one state of a database, which may be in use. Throws `UnusableDatabase`. */
export async function openPostgresCopySource(
  location: PostgresLocation,
  answerTimeoutMs?: number,
): Promise<CopySource> {
  return createCopySource(await beginCopy({ location, end: 'source', answerTimeoutMs }))
}

/**
 * Begins the transaction of a copy and locks the database for it, which may be the source of many copies, or the target of
 * one. A lock of the transaction also holds behind a pooler. The schema must be that of this release. A target is on the host
 * that takes writes, and a source preferably.
 */
export async function beginCopy(options: EndOptions): Promise<CopySession & Session> {
  const { location, end, answerTimeoutMs = ANSWER_TIMEOUT_MS } = options
  const isTarget = end === 'target'
  const connection = await explained(() =>
    openAnyClient(createClientConfigs(location), location.connectTimeoutMs ?? CONNECT_TIMEOUT_MS),
  )
  const query = <R extends Row>(statement: Statement, values?: readonly unknown[]) =>
    explained(() => connection.ask<R>(statement, values, answerTimeoutMs + SILENCE_MS))
  try {
    if (isTarget && connection.isReadOnly) throw new UnusableDatabase('its server takes no writes')
    if (await lacksSchema({ query })) {
      if (!isTarget) throw new UnusableDatabase('it has no tables of this service')
      await migrateDatabase(location)
    }
    await query(ENDS[end].begin)
    await query(SET_UP, [LOCK_TIMEOUT_MS, answerTimeoutMs].map(String))
    const [[hasLock] = [false]] = await query<[boolean]>(ENDS[end].lock)
    if (!hasLock) throw new UnusableDatabase(ENDS[end].refusal)
    if (isTarget) await query(LOCK_TABLES)
    else await refuseUnfinishedCopy({ query })
  } catch (error) {
    connection.end()
    throw error
  }
  return {
    lastGivenId: LAST_GIVEN_ID.postgres,
    query,
    read: async (table, select) => {
      await query(`DECLARE copied_${table.name} NO SCROLL CURSOR FOR ${select}`)
      return async limit => {
        const rows = await query<CopiedRow>(`FETCH ${limit} FROM copied_${table.name}`)
        return mapTexts(table, rows, fromStored)
      }
    },
    close: async () => connection.end(),
  }
}

/** The rows with other texts in the columns whose texts PostgreSQL cannot store as they are. */
export function mapTexts(
  { columns }: CopiedTable,
  rows: readonly CopiedRow[],
  change: (text: string) => string,
): readonly CopiedRow[] {
  const types = Object.values(columns)
  if (!types.includes('anyText')) return rows
  return rows.map(row =>
    row.map((value, at) => (types[at] === 'anyText' ? change(String(value)) : value)),
  )
}

/** The server's or driver's error is the cause. */
async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof UnusableDatabase ? error : asUnusable(unavailable(error))
  }
}

async function lacksSchema(session: Session): Promise<boolean> {
  const migrations = migrationsFor('postgres')
  const applied = await readUsableHistory(session, migrations)
  if (applied.length === 0) return true
  if (applied.length < migrations.length) throw new UnusableDatabase(OLDER_SCHEMA)
  return false
}
