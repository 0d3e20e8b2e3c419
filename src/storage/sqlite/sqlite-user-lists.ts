import { ServiceError } from '../../errors.ts'
import type { UserQuery, UserReads } from '../../users/user-repository.ts'
import { createCallGate, through } from '../call-gate.ts'
import { ARE_WORDS_INDEXED } from '../index-next-users.ts'
import { createListPrograms, MAX_LIST_MS } from '../list-programs.ts'
import { type Program, runAtOnce, runAwaited } from '../programs.ts'
import { type LongLists, type LongReads, steadyMs } from './long-reads.ts'
import { sqliteListDialect } from './sqlite-list-dialect.ts'
import { createStatementRunner, numbered, type SqliteParts } from './sqlite-statements.ts'

/** Long lists. More would wait too long: one of them may take seconds. */
const MAX_WAITING = 20

const lists = createListPrograms(sqliteListDialect)

/**
 * Lists of the table `users` of SQLite, each in one statement. One that reads few users takes less than a millisecond, and is
 * read at once. The caller closes `longLists`, before the database.
 */
export function createSqliteUserLists(
  { database, view }: Pick<SqliteParts, 'database' | 'view'>,
  longLists: LongLists,
): Pick<UserReads, 'list' | 'walk'> {
  const query = createStatementRunner(database)
  const readAtOnce = <T>(program: Program<T>) => view.read(() => runAtOnce(program, query))
  const listLong = through(createCallGate(MAX_WAITING), (asked: UserQuery) => {
    const deadline = steadyMs() + MAX_LIST_MS
    return longLists.run('page', reads => runLong(reads, lists.readLong(asked), deadline))
  })

  return {
    list: async asked => {
      if (lists.isShort(asked)) return readAtOnce(lists.readShort(asked))
      await readAtOnce(lists.requireWords(asked))
      return listLong(asked)
    },

    walk: async (selection, take) => {
      const hasWords = selection.words.length > 0
      // Without words, the first users come soon.
      const deadline = hasWords ? steadyMs() + MAX_LIST_MS : Number.POSITIVE_INFINITY
      const condition = hasWords ? ARE_WORDS_INDEXED : 'SELECT 1'
      const hasWalked = await longLists.run('whole', async reads => {
        const { sql, values } = await runLong(reads, lists.planWhole(selection), deadline)
        return reads.walk({ sql, values: numbered(values), deadline, condition }, take)
      })
      if (!hasWalked) throw new ServiceError('words_unavailable')
    },
  }
}

function runLong<T>({ rows }: LongReads, program: Program<T>, deadline: number): Promise<T> {
  return runAwaited(program, (sql, values) => rows({ sql, values: numbered(values), deadline }))
}
