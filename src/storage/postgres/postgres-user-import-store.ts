import { ServiceError } from '../../errors.ts'
import { usedUp } from '../../users/stored-user.ts'
import type { UserImportStore } from '../../users/transfer/user-import-store.ts'
import {
  createUserImportStore,
  FOUND_COLUMNS,
  type ImportEngine,
  Race,
} from '../create-user-import-store.ts'
import { ask, type Program } from '../programs.ts'
import { PASS_USED_IDS } from './create-users.ts'
import { type Connections, createPostgresSharedStatements } from './postgres-connections.ts'
import { isOfState, NO_MORE_IDS, sqlStateOf } from './postgres-errors.ts'
import { POSTGRES_WORDS } from './user-reads.ts'

/** As on SQLite. Unlike `SELECT FROM users_id_seq`, it needs no more than the service: USAGE of the sequence. */
export const LAST_GIVEN_ID = `coalesce(pg_sequence_last_value('users_id_seq'::regclass), 0)`

const TAKE_IDS = `SELECT unnest(take_user_ids(ARRAY(
  SELECT CAST(id AS bigint) FROM json_array_elements_text($1) AS wanted (id))))`

const IMPORTS: ImportEngine = {
  // For each e-mail a look into the index (`OFFSET 0`): PostgreSQL prefers to read all of a table of medium size.
  selectUsers: `
    SELECT ${FOUND_COLUMNS} FROM users
    WHERE id = ANY(ARRAY(
      SELECT id FROM json_array_elements_text($1) AS wanted (email)
        CROSS JOIN LATERAL (SELECT id FROM users WHERE email_lower = wanted.email OFFSET 0) AS found
    ) || ARRAY(SELECT CAST(id AS bigint) FROM json_array_elements_text($2) AS wanted (id)))`,
  // In the same order as all other writes, which keeps two of them from waiting for each other.
  lock: 'ORDER BY id FOR NO KEY UPDATE',
  selectLastId: `SELECT ${LAST_GIVEN_ID}`,
  ...POSTGRES_WORDS,
  // In the order of creates by requests, so that an import and a request wait for each other in one direction only.
  insertFree: insert => `
    WITH inserted AS (
      ${insert} ORDER BY lower(email COLLATE "C") ON CONFLICT DO NOTHING RETURNING 1
    )
    SELECT count(*) FROM inserted`,
  takeIds,
}

/** Attempts to write a batch while other writers change its users. */
const MAX_ATTEMPTS = 5

/** SQLSTATEs of a batch that met another writer: a taken e-mail or id, a deadlock, a conflict of transactions. */
const RACES: readonly string[] = ['23505', '40P01', '40001']

/** Larger batches are not faster. */
const BATCH_ROWS = 2000

/** Imports into PostgreSQL. If another writer gets in between, the whole batch is repeated. */
export function createPostgresUserImportStore(
  connections: Connections,
  now: () => number,
): UserImportStore {
  const statements = createPostgresSharedStatements(connections)
  const store = createUserImportStore(IMPORTS, {
    read: statements.read,
    transaction: program => statements.transaction(program, { isLong: true }),
    now,
  })
  return {
    ...store,
    batchRows: () => BATCH_ROWS,
    write: async batch => {
      for (let attempt = 1; ; attempt++) {
        try {
          return await store.write(batch)
        } catch (error) {
          if (!(error instanceof Race || isOfState(error, RACES))) throw error
          if (attempt === MAX_ATTEMPTS) {
            throw new ServiceError('storage_unavailable', { cause: error })
          }
          if (attempt === MAX_ATTEMPTS - 1) await statements.write(PASS_USED_IDS, [])
        }
      }
    },
  }
}

/** No other user ever gets them. Throws `storage_damaged` if none is left. */
export function* takeIds(wanted: readonly (number | undefined)[]): Program<number[]> {
  try {
    const rows = yield* ask<[number]>(TAKE_IDS, [JSON.stringify(wanted)])
    return rows.map(([id]) => id)
  } catch (error) {
    throw sqlStateOf(error) === NO_MORE_IDS ? usedUp('ids') : error
  }
}
