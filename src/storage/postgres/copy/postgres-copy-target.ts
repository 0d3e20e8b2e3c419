import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { BANS, COPIED_TABLES } from '../../copy/copied-tables.ts'
import { type CopyTarget, createCopyTarget } from '../../copy/copy-ends.ts'
import { BAN_HASH, toStored } from '../ban-text.ts'
import { withConnections } from '../open-postgres-storage.ts'
import { columnsOf } from '../postgres-connections.ts'
import { isCausedBy } from '../postgres-errors.ts'
import { BEGIN_FEED } from '../postgres-user-changes.ts'
import { DECLARES_WORDS, upsertWords } from '../user-words.ts'
import { beginCopy, mapTexts } from './postgres-copy-source.ts'

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
  const session = await beginCopy({ location, end: 'target', answerTimeoutMs })
  const { query } = session

  const target = createCopyTarget({
    ...session,

    begin: async mark => {
      if (mark === undefined) {
        const [[mayTruncate] = [false]] = await query<[boolean]>(SELECT_MAY_TRUNCATE)
        for (const text of mayTruncate ? [TRUNCATE] : EMPTIED.map(name => `DELETE FROM ${name}`))
          await query(text)
      } else {
        // It has to stay if the transaction of this session is undone.
        await withConnections(location, ({ write }) => write(mark))
        await query('DELETE FROM signing_keys')
      }
      await query(`SELECT ${DECLARES_WORDS}`)
    },

    // Faster than one INSERT for each row, and 1.3 times as slow as COPY, which the driver does not have.
    insert: async (table, rows) => {
      const names = Object.keys(table.columns)
      const arrays = Object.values(table.columns).map((type, at) => `$${at + 1}::${ARRAYS[type]}`)
      const [ownName, ownValue] = table === BANS ? [', key_hash', `, ${BAN_HASH}`] : ['', '']
      await query(
        `INSERT INTO ${table.name} (${names}${ownName})
         SELECT *${ownValue} FROM unnest(${arrays}) AS added (${names})`,
        columnsOf(mapTexts(table, rows, toStored)),
      )
    },

    putWords: users => upsertWords(session, users),

    // The server refused a value (class 22), or a constraint did (class 23).
    isRefusal: error => isCausedBy(error, ['22', '23']),

    complete: async lastId => {
      if (lastId > 0) await query(RAISE_SEQUENCE, [lastId])
      await query(BEGIN_FEED)
    },
  })

  return {
    ...target,
    commit: async () => {
      await target.commit()
      // Faster first queries. Autovacuum does the same later, so that a failure does no harm.
      await query('ANALYZE users, users_words, idempotency_keys, bans').catch(() => {})
    },
  }
}
