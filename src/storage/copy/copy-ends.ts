import { UnusableDatabase } from '../unusable-database.ts'
import { GREATEST_ID } from '../user-ids.ts'
import {
  type CopiedRow,
  type CopiedTable,
  HAS_ROWS,
  namedUserOf,
  selectOf,
  USERS,
} from './copied-tables.ts'

/** The connection of one end, and what its engine does in its own way. Each call throws `UnusableDatabase`. */
export interface CopySession {
  query<R extends readonly unknown[]>(sql: string): Promise<R[]>
  /** Begins to read all rows of a table. The result returns the next ones, at most `limit`; none at the end. */
  read(
    table: CopiedTable,
    select: string,
  ): Promise<(limit: number) => Promise<readonly CopiedRow[]>>
  /** SQL: see `LAST_GIVEN_ID`. */
  readonly lastGivenId: string
  close(): Promise<void>
}

/** The same for a target, which nothing else writes to until it is closed. */
export interface TargetSession extends CopySession {
  /** Commits `mark`, if given, begins the transaction of the copy, and empties all tables. */
  begin(mark?: string): Promise<void>
  insert(table: CopiedTable, rows: readonly CopiedRow[]): Promise<void>
  /** Makes users that were inserted be found by their words. */
  putWords(users: readonly ReturnType<typeof namedUserOf>[]): Promise<void>
  /** Whether an error refuses a row. Its cause is the error of the engine. */
  isRefusal(error: UnusableDatabase): boolean
  /**
   * Call it after the last row: makes the indexes and triggers that were left out until then. New users get ids above
   * `lastId`.
   */
  complete(lastId: number): Promise<void>
}

export type CopySource = ReturnType<typeof createCopySource>

export type CopyTarget = ReturnType<typeof createCopyTarget>

const COUNT_USERS = `SELECT CAST(sum(user_count) AS bigint) FROM users_summary`

const IS_UNFINISHED = `EXISTS (SELECT 1 FROM unfinished_copies)`

const INSERT_MARK = `INSERT INTO unfinished_copies (singleton) VALUES (1)`

const DELETE_MARK = `DELETE FROM unfinished_copies`

const NOT_EMPTY = 'it is not empty: it has users, idempotency keys, bans or API keys, or had users'

/** One state of a database, which does not change while others write to it. */
export function createCopySource(session: CopySession) {
  const begun = new Map<CopiedTable, Awaited<ReturnType<CopySession['read']>>>()
  return {
    countUsers: async () => (await session.query<[number]>(COUNT_USERS))[0]?.[0] ?? 0,

    /** The next rows of a table, at most `limit`. Empty once all have been read. */
    next: async (table: CopiedTable, limit: number) => {
      const readNext = begun.get(table) ?? (await session.read(table, selectOf(table)))
      begun.set(table, readNext)
      return readNext(limit)
    },

    /** The greatest id that was ever given out; 0 if none was. */
    lastId: async () => {
      const select = `SELECT ${session.lastGivenId}, ${GREATEST_ID}`
      const [ids = []] = await session.query<number[]>(select)
      const lastId = Math.max(...ids)
      if (Number.isSafeInteger(lastId)) return lastId
      // No release gives out such an id, but a program that writes to a file can.
      throw new UnusableDatabase('it has given out ids greater than 9007199254740991')
    },

    close: () => session.close(),
  }
}

/** A database that is filled. All but its mark is written in one transaction, which `close` undoes unless it was committed. */
export function createCopyTarget(session: TargetSession) {
  const { query, insert, putWords, isRefusal } = session
  const holds = async (condition: string) => Boolean((await query(`SELECT ${condition}`))[0]?.[0])

  async function addAll(table: CopiedTable, rows: readonly CopiedRow[]): Promise<void> {
    await insert(table, rows)
    if (table === USERS) await putWords(rows.map(namedUserOf))
  }

  return {
    ...createCopySource(session),

    /**
     * Marks the database as an unfinished copy, which nothing else uses, and empties it. Throws unless it is an unfinished
     * copy already, or has no counted row and has never given out an id.
     */
    begin: async () => {
      const isUnfinished = await holds(IS_UNFINISHED)
      if (!isUnfinished && (await holds(`${HAS_ROWS} OR ${session.lastGivenId} > 0`))) {
        throw new UnusableDatabase(NOT_EMPTY)
      }
      await session.begin(isUnfinished ? undefined : INSERT_MARK)
    },

    /** Adds rows, which for users are in the order of their ids. Names a row that is refused. */
    add: async (table: CopiedTable, rows: readonly CopiedRow[]) => {
      await query('SAVEPOINT added')
      await addAll(table, rows).catch(async error => {
        if (!isRefusal(error)) throw error
        await query('ROLLBACK TO added')
        for (const row of rows) {
          await addAll(table, [row]).catch(refusal => {
            throw isRefusal(refusal) ? cannotHold(table.nameRow(row), refusal) : refusal
          })
        }
        throw error
      })
      await query('RELEASE added')
    },

    complete: (lastId: number) => session.complete(lastId),

    /** Removes the mark. */
    commit: async () => {
      await query(DELETE_MARK)
      await query('COMMIT')
    },
  }
}

/** For a row that is refused, named as by `nameRow`. */
export function cannotHold(row: string, refusal: Error): UnusableDatabase {
  return new UnusableDatabase(`it cannot hold ${row}: ${refusal.message}`, { cause: refusal })
}
