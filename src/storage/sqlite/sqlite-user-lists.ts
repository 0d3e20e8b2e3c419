import type { UserQuery, UserReads } from '../../users/user-repository.ts'
import { createCallGate, through } from '../call-gate.ts'
import { createListPrograms, MAX_LIST_MS } from '../list-programs.ts'
import { type Program, runAtOnce, runAwaited } from '../programs.ts'
import { type LongKind, type LongLists, steadyMs } from './long-reads.ts'
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
): Pick<UserReads, 'list' | 'scan'> {
  const query = createStatementRunner(database)
  const readAtOnce = <T>(program: Program<T>) => view.read(() => runAtOnce(program, query))
  const listLong = through(createCallGate(MAX_WAITING), (asked: UserQuery) =>
    runLong('page', lists.readLong(asked)),
  )

  function runLong<T>(kind: LongKind, program: Program<T>): Promise<T> {
    const deadline = steadyMs() + MAX_LIST_MS
    return runAwaited(program, (sql, values) =>
      longLists.rows(kind, { sql, values: numbered(values), deadline }),
    )
  }

  return {
    list: async asked =>
      lists.isShort(asked) ? readAtOnce(lists.readShort(asked)) : listLong(asked),

    scan: scan => runLong('part', lists.scan(scan)),
  }
}
