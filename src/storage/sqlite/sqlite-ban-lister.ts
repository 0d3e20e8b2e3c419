import type { Ban, BanQuery, BanStore } from '../../limits/ban-store.ts'
import { BAN_COLUMNS, readBans, type SqliteBanLoaderOptions } from './sqlite-ban-loader.ts'
import { rememberStatements } from './sqlite-statements.ts'

/** A query has one of eight forms for each number of client keys, which are few. */
const MAX_STATEMENTS = 50

/** Lists the bans in the table `bans`, in the order of its primary key. */
export function createSqliteBanLister({ database, now }: SqliteBanLoaderOptions): BanStore['list'] {
  const prepare = rememberStatements(database, MAX_STATEMENTS)

  return async query => {
    const { limit } = query
    const conditions = conditionsOf(query)
    const texts = conditions.map(({ sql }) => sql)
    const select = prepare(texts.join(), () => selectWhere(texts))
    const values = conditions.flatMap(condition => condition.values)
    const found = readBans(() => select.all(now(), ...values, limit + 1)) as Ban[]
    return { bans: found.slice(0, limit), hasMore: found.length > limit }
  }
}

interface Condition {
  readonly sql: string
  readonly values: readonly string[]
}

function conditionsOf({ rule, clientKeys, after }: BanQuery): readonly Condition[] {
  const conditions: Condition[] = []
  if (rule !== undefined) {
    // With a place in the order, the plus keeps SQLite from looking for the rule alone and reading its bans up to there.
    const isPlaced = after !== undefined && clientKeys === undefined
    conditions.push(
      isPlaced
        ? { sql: 'rule <= ? AND +rule = ?', values: [rule, rule] }
        : { sql: 'rule = ?', values: [rule] },
    )
  }
  if (after !== undefined) {
    const { rule: afterRule, clientKey } = after
    conditions.push({ sql: '(rule, client_key) > (?, ?)', values: [afterRule, clientKey] })
  }
  if (clientKeys !== undefined) {
    const places = clientKeys.map(() => '?').join(', ')
    conditions.push({ sql: `client_key IN (${places})`, values: clientKeys })
  }
  return conditions
}

function selectWhere(conditions: readonly string[]): string {
  return `
    SELECT ${BAN_COLUMNS} FROM bans
    WHERE ${['ends_at > ?', ...conditions].join(' AND ')}
    ORDER BY rule, client_key LIMIT ?`
}
