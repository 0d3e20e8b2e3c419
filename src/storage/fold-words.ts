import { ServiceError } from '../errors.ts'
import { performance, sleep } from '../platform/timers.ts'
import { WORDS_VERSION, wordsOfUser } from '../users/words.ts'
import { ask, type Program } from './programs.ts'
import type { FoldingProgress, OpenStorageOptions, SharedStatements } from './storage.ts'

/** How an engine keeps the words of users, in SQL. */
export interface WordDialect {
  /** The column `words` as a text. */
  readonly text: string
  /** The value of that column, from SQL for a text of `wordsOfUser`. */
  readonly wordsFrom: (text: string) => string
  /** What SELECT takes the elements of the set `$1`, a JSON array, from. Each is the column `value`. */
  readonly elements: string
  /** Gives the lists another revision: those with words may become others. */
  readonly noteChange: string
}

type Statements = Pick<SharedStatements, 'read' | 'transaction'>

type WordsRow = readonly [id: string, name: string, email: string, words: string]

/** Their words are made in a few milliseconds, and on SQLite reads wait meanwhile. */
const USERS_A_STEP = 500

/** A command that only reads holds up nothing else. */
const USERS_A_CHECK = 5000

/** SQL for the greatest id of a user; 0 without users. */
export const GREATEST_ID = `coalesce((SELECT max(id) FROM users), 0)`

/** Before all others. Ids are text, because a file may hold some beyond the integers of JavaScript. */
export const LEAST_ID = '-9223372036854775808'

const IS_OLDER = `SELECT version < ${WORDS_VERSION} FROM words_rules`

/** Says that the words of all users are by the rules of this release, as in a database without users. */
export const NOTE_RULES = `UPDATE words_rules SET version = ${WORDS_VERSION}`

const REPORT_MS = 10_000

const RETRY_MS = 1000

const FAILED = 'words of users cannot be made again'

/** The database is locked or away, or too many writes wait. */
const PASSING = ['storage_unavailable', 'outcome_unknown', 'overloaded']

/** In the order of the column: PostgreSQL calls its text `id` too. */
const selectAfter = ({ text }: WordDialect, limit: number) => `
  SELECT CAST(id AS text), name, email, ${text} FROM users
  WHERE id > CAST($1 AS bigint) ORDER BY users.id LIMIT ${limit}`

/** Names and e-mails that have changed meanwhile have other words, which were written with them. */
const updateWords = ({ wordsFrom, elements }: WordDialect) => `
  UPDATE users SET words = ${wordsFrom('folded.words')}
  FROM (
    SELECT CAST(value->>0 AS bigint) AS id, value->>1 AS name, value->>2 AS email, value->>3 AS words FROM ${elements}
  ) AS folded
  WHERE users.id = folded.id AND users.name = folded.name AND users.email = folded.email`

export interface FoldOptions {
  /** Whether words are made again that these rules made. */
  readonly isForced?: boolean
  /** Called after each step. */
  readonly onStep?: ((progress: FoldingProgress) => void) | undefined
  /** Whether the process does other work, which gets at least half of the time. */
  readonly isBeside?: boolean
  readonly signal?: AbortSignal | undefined
}

/** If older rules made the words of users, makes them by the rules of this release, in batches, and writes those that differ. */
export async function foldWords(
  { read, transaction }: Statements,
  dialect: WordDialect,
  { isForced = false, onStep, isBeside = false, signal }: FoldOptions = {},
): Promise<void> {
  const [[isOlder] = []] = await read(IS_OLDER)
  if (!isForced && !isOlder) return
  const [[lastId] = [0]] = await read<[number]>(`SELECT ${GREATEST_ID}`)
  const select = selectAfter(dialect, USERS_A_STEP)
  for (let after: string | undefined = LEAST_ID; after !== undefined; ) {
    signal?.throwIfAborted()
    const startedAt = performance.now()
    const users: WordsRow[] = await read<WordsRow>(select, [after])
    const wrong = users.filter(isWrong)
    if (wrong.length > 0) {
      await transaction(() => writeWords(dialect, wrong), { isLong: true, writes: 0 })
    }
    const through = Number(users.at(-1)?.[0])
    if (users.length > 0) onStep?.({ isComplete: false, through, lastId })
    after = users[USERS_A_STEP - 1]?.[0]
    // Without any pause a signal would not be seen. A process that does nothing else must not end meanwhile.
    const pauseMs = isBeside ? performance.now() - startedAt : 0
    await sleep(pauseMs, undefined, { ref: !isBeside, ...(signal && { signal }) })
  }
  await transaction(() => ask(NOTE_RULES), { writes: 0 })
  if (lastId > 0) onStep?.({ isComplete: true, through: lastId, lastId })
}

function* writeWords(dialect: WordDialect, users: readonly WordsRow[]): Program<void> {
  const rows = users.map(([id, name, email]) => [id, name, email, wordsOf(name, email)])
  yield* ask(updateWords(dialect), [JSON.stringify(rows)])
  yield* ask(dialect.noteChange)
}

/** Whether the words of some user are not those of its name and e-mail. */
export function* hasWrongWords(dialect: WordDialect): Program<boolean> {
  const select = selectAfter(dialect, USERS_A_CHECK)
  for (let after: string | undefined = LEAST_ID; after !== undefined; ) {
    const users: WordsRow[] = yield* ask<WordsRow>(select, [after])
    if (users.some(isWrong)) return true
    after = users[USERS_A_CHECK - 1]?.[0]
  }
  return false
}

function wordsOf(name: string, email: string): string {
  return wordsOfUser({ name, email })
}

/** In any order: PostgreSQL sorts them. */
function isWrong([, name, email, words]: WordsRow): boolean {
  const expected = wordsOf(name, email)
  return words !== expected && sorted(words) !== sorted(expected)
}

function sorted(words: string): string {
  return words.split(' ').sort().join(' ')
}

/**
 * Makes the words of users again beside the other work of a storage, if older rules made them. Begins at once if progress is to be
 * reported; otherwise another process does it.
 */
export function foldWordsBeside(
  statements: Statements,
  dialect: WordDialect,
  { onFolding, onWarning }: Pick<OpenStorageOptions, 'onFolding' | 'onWarning'>,
) {
  const ending = new AbortController()
  const { signal } = ending
  let reportedAt = Number.NEGATIVE_INFINITY

  function report(progress: FoldingProgress): void {
    if (!progress.isComplete && performance.now() - reportedAt < REPORT_MS) return
    reportedAt = performance.now()
    onFolding?.(progress)
  }

  async function fold(): Promise<void> {
    for (let hasWarned = false; ; ) {
      try {
        return await foldWords(statements, dialect, { onStep: report, isBeside: true, signal })
      } catch (error) {
        if (signal.aborted) return
        const mayPass = error instanceof ServiceError && PASSING.includes(error.code)
        if (!mayPass && !hasWarned) onWarning?.(FAILED, error)
        hasWarned ||= !mayPass
        await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => {})
      }
    }
  }

  const folding = onFolding && fold()
  return {
    /** Stops where it is; the next start begins again. */
    end: async () => {
      ending.abort()
      await folding
    },
  }
}
