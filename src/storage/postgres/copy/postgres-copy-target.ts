import type { PostgresLocation } from '../../../config/postgres-url.ts'
import {
  BANS,
  COPIED_TABLES,
  type CopiedRow,
  type CopiedTable,
  HAS_ROWS,
  USERS,
} from '../../copy/copied-tables.ts'
import { type CopyTarget, NOT_EMPTY } from '../../copy/copy-ends.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { hashOfBan, toStored } from '../ban-text.ts'
import { migrateDatabase } from '../maintenance/postgres-database-work.ts'
import { isUnfinishedCopy } from '../postgres-copy-mark.ts'
import { sqlStateOf } from '../postgres-errors.ts'
import { insertWords, WRITES_WORDS, wordsText } from '../user-words.ts'
import { type CopySession, lacksSchema, lockForCopy, openCopySession } from './copy-session.ts'
import { createPostgresCopyEnd } from './postgres-copy-source.ts'

/** A service that runs although the database was empty must not change what is copied. */
const LOCK_TABLES = `
  LOCK TABLE ${COPIED_TABLES.map(({ name }) => name).join(', ')} IN SHARE ROW EXCLUSIVE MODE`

const SELECT_IS_USED = `
  SELECT ${HAS_ROWS} OR pg_sequence_last_value('users_id_seq'::regclass) IS NOT NULL`

const INSERT_MARK = `INSERT INTO unfinished_copies (singleton) VALUES (1)`

const DELETE_MARK = `DELETE FROM unfinished_copies`

const EMPTIED = ['users_words', 'users_without_words', ...COPIED_TABLES.map(({ name }) => name)]

const SELECT_MAY_TRUNCATE = `
  SELECT bool_and(has_table_privilege(name, 'TRUNCATE'))
  FROM unnest('{${EMPTIED}}'::text[]) AS emptied (name)`

/** Unlike DELETE, it frees the room that the interrupted copy took, and is done at once. */
const TRUNCATE = `TRUNCATE ${EMPTIED.join(', ')}`

/** A role that only serves may not set the sequence itself. */
const RAISE_SEQUENCE = `SELECT take_user_ids(ARRAY[$1::bigint])`

const ARRAYS = { integer: 'bigint[]', text: 'text[]', anyText: 'text[]', bytes: 'bytea[]' }

/** Opens an empty database or an unfinished copy, which no other copy writes to. Throws `UnusableDatabase`. */
export async function openPostgresCopyTarget(
  location: PostgresLocation,
  answerTimeoutMs?: number,
): Promise<CopyTarget> {
  const open = () => openCopySession(location, { isWritten: true, answerTimeoutMs })
  const session = await open()
  try {
    if (await lacksSchema(session)) await migrateDatabase(location)
    await session.query({ text: 'BEGIN' })
    await lockForCopy(session, 'target')
  } catch (error) {
    session.close()
    throw error
  }
  return createTarget(session, open)
}

function createTarget(session: CopySession, openOther: () => Promise<CopySession>): CopyTarget {
  const run = async (text: string, values: readonly unknown[] = []) => {
    await session.query({ text }, values)
  }

  const ask = async (text: string) => {
    const [row] = await session.query<[boolean]>({ text })
    return row?.[0] === true
  }

  return {
    ...createPostgresCopyEnd(session),

    begin: async () => {
      await run(LOCK_TABLES)
      if (await isUnfinishedCopy(session)) {
        const mayTruncate = await ask(SELECT_MAY_TRUNCATE)
        for (const text of mayTruncate ? [TRUNCATE] : EMPTIED.map(name => `DELETE FROM ${name}`))
          await run(text)
      } else if (await ask(SELECT_IS_USED)) {
        throw new UnusableDatabase(NOT_EMPTY)
      } else {
        // It has to stay if the transaction of this session is undone.
        const other = await openOther()
        await other.query({ text: INSERT_MARK }).finally(other.close)
        await run('DELETE FROM signing_keys')
      }
      await run(`SELECT ${WRITES_WORDS}`)
    },

    add: async (table, rows) => {
      await run('SAVEPOINT added')
      try {
        await insert(session, table, rows)
        await run('RELEASE added')
      } catch (error) {
        if (!isRefusal(error)) throw error
        await run('ROLLBACK TO added')
        for (const row of rows) await nameRefused(table, row, () => insert(session, table, [row]))
        throw error
      }
    },

    complete: async lastId => {
      if (lastId > 0) await run(RAISE_SEQUENCE, [lastId])
    },

    commit: async () => {
      await run(DELETE_MARK)
      await run('COMMIT')
      // Faster first queries. Autovacuum does the same later, so that a failure does no harm.
      await run('ANALYZE users, users_words, idempotency_keys, bans').catch(() => {})
    },
  }
}

/** Faster than one INSERT for each row, and 1.3 times as slow as COPY, which the driver does not have. */
async function insert(
  session: CopySession,
  table: CopiedTable,
  rows: readonly CopiedRow[],
): Promise<void> {
  const columns = Object.entries(table.columns).map(([name, type], at) => {
    const values = rows.map(row => row[at])
    return {
      name,
      array: ARRAYS[type],
      values: type === 'anyText' ? values.map(value => toStored(String(value))) : values,
    }
  })
  if (table === BANS) {
    const values = rows.map(([rule, clientKey]) =>
      hashOfBan({ rule: String(rule), clientKey: String(clientKey) }),
    )
    columns.push({ name: 'key_hash', array: ARRAYS.bytes, values })
  }
  const names = columns.map(({ name }) => name).join(', ')
  const arrays = columns.map(({ array }, at) => `$${at + 1}::${array}`).join(', ')
  const text = `INSERT INTO ${table.name} (${names}) SELECT * FROM unnest(${arrays})`
  await session.query(
    { text },
    columns.map(({ values }) => values),
  )
  if (table !== USERS) return
  const words = rows.map(([, name, , email]) =>
    wordsText({ name: String(name), email: String(email) }),
  )
  await insertWords(
    session,
    rows.map(([id]) => ({ id: Number(id) })),
    words,
  )
}

async function nameRefused(
  { nameRow }: CopiedTable,
  row: CopiedRow,
  write: () => Promise<void>,
): Promise<void> {
  try {
    await write()
  } catch (error) {
    if (!isRefusal(error)) throw error
    const { message } = error as Error
    throw new UnusableDatabase(`it cannot hold ${nameRow(row)}: ${message}`, { cause: error })
  }
}

/** Whether the server refused a value (class 22) or a constraint did (class 23). */
function isRefusal(error: unknown): boolean {
  const state = sqlStateOf((error as Error).cause)
  return state?.startsWith('22') === true || state?.startsWith('23') === true
}
