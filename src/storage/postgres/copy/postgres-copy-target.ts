import type { PostgresLocation } from '../../../config/postgres-url.ts'
import {
  BANS,
  COPIED_TABLES,
  type CopiedRow,
  type CopiedTable,
  HAS_ROWS,
  namedUserOf,
  USERS,
} from '../../copy/copied-tables.ts'
import { type CopyTarget, NOT_EMPTY } from '../../copy/copy-ends.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { BAN_HASH, toStored } from '../ban-text.ts'
import { isUnfinishedCopy } from '../inspect-schema.ts'
import { isCausedBy } from '../postgres-errors.ts'
import { BEGIN_FEED } from '../postgres-user-changes.ts'
import { DECLARES_WORDS, upsertWords } from '../user-words.ts'
import { beginCopy, type CopySession, openCopySession } from './copy-session.ts'
import { createPostgresCopyEnd } from './postgres-copy-source.ts'

/** A service that runs although the database was empty must not change what is copied. */
const LOCK_TABLES = `
  LOCK TABLE ${COPIED_TABLES.map(({ name }) => name).join(', ')} IN SHARE ROW EXCLUSIVE MODE`

const SELECT_IS_USED = `
  SELECT ${HAS_ROWS} OR pg_sequence_last_value('users_id_seq'::regclass) IS NOT NULL`

const INSERT_MARK = `INSERT INTO unfinished_copies (singleton) VALUES (1)`

const DELETE_MARK = `DELETE FROM unfinished_copies`

/** Keys before users, because a trigger looks for those of each deleted user. Changes last, because a trigger notes them. */
const EMPTIED = [
  'user_changes',
  ...COPIED_TABLES.map(({ name }) => name),
  'users_without_words',
  'users_words',
].reverse()

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
  const options = { location, end: 'target', answerTimeoutMs } as const
  const session = await beginCopy(options)

  const ask = async (text: string) => {
    const [row] = await session.query<[boolean]>(text)
    return row?.[0] === true
  }

  return {
    ...createPostgresCopyEnd(session),

    begin: async () => {
      await session.query(LOCK_TABLES)
      if (await isUnfinishedCopy(session)) {
        const mayTruncate = await ask(SELECT_MAY_TRUNCATE)
        for (const text of mayTruncate ? [TRUNCATE] : EMPTIED.map(name => `DELETE FROM ${name}`))
          await session.query(text)
      } else if (await ask(SELECT_IS_USED)) {
        throw new UnusableDatabase(NOT_EMPTY)
      } else {
        // It has to stay if the transaction of this session is undone.
        const other = await openCopySession(options)
        await other.query(INSERT_MARK).finally(other.close)
        await session.query('DELETE FROM signing_keys')
      }
      await session.query(`SELECT ${DECLARES_WORDS}`)
    },

    add: async (table, rows) => {
      await session.query('SAVEPOINT added')
      try {
        await insert(session, table, rows)
        await session.query('RELEASE added')
      } catch (error) {
        if (!isRefusal(error)) throw error
        await session.query('ROLLBACK TO added')
        for (const row of rows) {
          await insert(session, table, [row]).catch(refusal => {
            if (!isRefusal(refusal)) throw refusal
            const how = `it cannot hold ${table.nameRow(row)}: ${refusal.message}`
            throw new UnusableDatabase(how, { cause: refusal })
          })
        }
        throw error
      }
    },

    complete: async lastId => {
      if (lastId > 0) await session.query(RAISE_SEQUENCE, [lastId])
      await session.query(BEGIN_FEED)
    },

    commit: async () => {
      await session.query(DELETE_MARK)
      await session.query('COMMIT')
      // Faster first queries. Autovacuum does the same later, so that a failure does no harm.
      await session.query('ANALYZE users, users_words, idempotency_keys, bans').catch(() => {})
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
    const toValue = (row: CopiedRow) => (type === 'anyText' ? toStored(String(row[at])) : row[at])
    return { name, type, values: rows.map(toValue) }
  })
  const names = columns.map(({ name }) => name).join(', ')
  const arrays = columns.map(({ type }, at) => `$${at + 1}::${ARRAYS[type]}`).join(', ')
  const [ownName, ownValue] = table === BANS ? [', key_hash', `, ${BAN_HASH}`] : ['', '']
  const text = `
    INSERT INTO ${table.name} (${names}${ownName})
    SELECT *${ownValue} FROM unnest(${arrays}) AS added (${names})`
  await session.query(
    text,
    columns.map(({ values }) => values),
  )
  if (table === USERS) await upsertWords(session, rows.map(namedUserOf))
}

/** Whether the server refused a value (class 22) or a constraint did (class 23). */
function isRefusal(error: unknown): boolean {
  return isCausedBy(error, ['22', '23'])
}
