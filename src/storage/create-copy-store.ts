import { ask, type Program } from './programs.ts'
import type { SharedStatements } from './storage.ts'
import { UnusableDatabase } from './unusable-database.ts'

/** A table that both engines have in the same form. Its rows are copied as they are. */
export interface CopiedTable {
  readonly name: string
  /** The first one is the primary key: a text, which is not empty, or bytes. */
  readonly columns: readonly string[]
  /** SQL for what a copy has in place of a column. */
  readonly replaced?: Readonly<Record<string, string>>
}

/** The values of the columns. */
export type CopiedRow = readonly unknown[]

/** What a copy needs of an engine. */
interface CopyDialect {
  /** That of `LAST_GIVEN_ID`. */
  readonly lastGivenId: string
  /** What gives no id up to `$1` to a new user. */
  readonly reserveIds: readonly string[]
}

const CLAIM_MARK = `UPDATE unfinished_copies SET run = $1 RETURNING run`

const INSERT_MARK = `INSERT INTO unfinished_copies (singleton, run) VALUES (1, $1)`

const DELETE_MARK = `DELETE FROM unfinished_copies WHERE run = $1 RETURNING run`

/** Empty in a new database. It has signing keys of its own, which are replaced. */
const TABLES = ['users', 'idempotency_keys', 'bans', 'api_keys', 'webhooks']

const HAS_ROWS = TABLES.map(name => `EXISTS (SELECT 1 FROM ${name})`).join(' OR ')

const NOT_EMPTY =
  'it is not empty: it has users, idempotency keys, bans, API keys or webhooks, or had users'

/** Short enough for a statement of any service. */
const DELETE_USERS = `
  DELETE FROM users WHERE id IN (SELECT id FROM users ORDER BY id LIMIT 2000) RETURNING id`

const DELETE_REST = [...TABLES.slice(1), 'signing_keys', 'imports'].map(
  name => `DELETE FROM ${name}`,
)

const ROWS_A_PAGE = 1000

/** The parameters of a statement are few. */
const ROWS_A_STATEMENT = 100

export type CopyStore = ReturnType<typeof createCopyStore>

/** What only `copy` asks of a database of either engine, beside what its other stores do. */
export function createCopyStore(
  { read, write, transaction }: SharedStatements,
  { lastGivenId, reserveIds }: CopyDialect,
) {
  function* mark(run: string): Program<void> {
    if ((yield* ask(CLAIM_MARK, [run])).length > 0) return
    const [[isUsed] = [true]] = yield* ask(`SELECT ${HAS_ROWS} OR ${lastGivenId} > 0`)
    if (isUsed) throw new UnusableDatabase(NOT_EMPTY)
    yield* ask(INSERT_MARK, [run])
  }

  function runAll(statements: readonly string[], values: readonly unknown[] = []): Promise<void> {
    function* program(): Program<void> {
      for (const sql of statements) yield* ask(sql, values)
    }
    return transaction(program, { isLong: true })
  }

  return {
    /**
     * Makes an unfinished copy, and empties it, of which `run` is the name of the copy that fills it. Throws `UnusableDatabase` for
     * a database that is neither empty nor an unfinished copy.
     */
    begin: async (run: string) => {
      await transaction(() => mark(run), { isLong: true })
      for (let hasMore = true; hasMore; ) hasMore = (await write(DELETE_USERS, [])).length > 0
      await runAll(DELETE_REST)
    },

    /** Removes the mark of an unfinished copy. Returns false, without a change, if another copy has begun since. */
    complete: async (run: string) => {
      await write(`DELETE FROM imports`, [])
      return (await write(DELETE_MARK, [run])).length > 0
    },

    /** All rows of a table, in parts, in the order of their keys. */
    async *rows({ name, columns, replaced = {} }: CopiedTable): AsyncIterable<CopiedRow[]> {
      const select = `
        SELECT ${columns.map(column => replaced[column] ?? column)} FROM ${name}
        WHERE ${columns[0]} > $1 ORDER BY ${columns[0]} LIMIT ${ROWS_A_PAGE}`
      // Before each text and all bytes.
      let page = await read(select, [''])
      for (; page.length > 0; page = await read(select, [page.at(-1)?.[0]])) yield page
    },

    keepRows: ({ name, columns }: CopiedTable, rows: readonly CopiedRow[]): Promise<void> => {
      function* program(): Program<void> {
        for (let at = 0; at < rows.length; at += ROWS_A_STATEMENT) {
          const some = rows.slice(at, at + ROWS_A_STATEMENT)
          const places = some.map((row, nth) =>
            row.map((_, column) => `$${nth * columns.length + column + 1}`),
          )
          const tuples = places.map(place => `(${place})`)
          yield* ask(`INSERT INTO ${name} (${columns}) VALUES ${tuples}`, some.flat())
        }
      }
      return transaction(program, { isLong: true })
    },

    /** New users get ids above this one. */
    reserveIds: (through: number) => runAll(reserveIds, [through]),
  }
}
