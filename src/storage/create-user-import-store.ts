import { createIdCounter, createImportDecisions } from '../users/transfer/import-decisions.ts'
import type {
  ImportBatch,
  ImportCheckpoint,
  ImportKeys,
  ImportOutcome,
  UserImportStore,
} from '../users/transfer/user-import-store.ts'
import type { UserRow } from '../users/user-repository.ts'
import { emailKey, foldCase } from '../users/user-schemas.ts'
import { wordsOfUser } from '../users/words.ts'
import type { WordDialect } from './fold-words.ts'
import { ask, type Program } from './programs.ts'
import type { SharedStatements } from './storage.ts'

/** What imports need of an engine. A set is one parameter, a JSON array. */
export interface ImportEngine extends Pick<WordDialect, 'elements' | 'wordsFrom'> {
  /** Selects `FOUND_COLUMNS` of the users with an e-mail of the set `$1`, in lower case, or an id of the set `$2`. */
  readonly selectUsers: string
  /** Added to that, it lets nobody else change or delete them until the commit. */
  readonly lock: string
  /** Selects the highest id that was ever given out, or 0. */
  readonly selectLastId: string
  /** Adds to `INSERT … SELECT` what inserts only users whose ids and e-mails are free, and returns how many it were. */
  readonly insertFree?: (insert: string) => string
  /** Ids for new users, one for each of `wanted`: that one, or the next. Absent where nobody else can take one meanwhile. */
  readonly takeIds?: (wanted: readonly (number | undefined)[]) => Program<readonly number[]>
}

/** The columns of a `FoundRow`. */
export const FOUND_COLUMNS = 'id, name, email, password_digest, created_at, updated_at'

type FoundRow = readonly [
  id: number,
  name: string,
  email: string,
  passwordDigest: string | null,
  createdAt: string,
  updatedAt: string,
]

/** Another writer was between the reads of a batch and its writes. */
export class Race extends Error {}

/**
 * Imports in the tables `users` and `imports`. A batch is decided row by row in memory and written with a few statements.
 * `write` throws `Race` if it must be repeated. `now` is in milliseconds since the epoch.
 */
export function createUserImportStore(
  engine: ImportEngine,
  { read, transaction, now }: Omit<SharedStatements, 'write'> & { readonly now: () => number },
): Omit<UserImportStore, 'batchRows'> {
  const write = createBatchWriter(engine, { now, endsAtConflict: true })
  return {
    findCheckpoint: async source => {
      const [row] = await read<[string]>(SELECT_CHECKPOINT, [source], { isLong: true })
      return row && toCheckpoint(row[0])
    },

    findUsers: async rows =>
      (await read<FoundRow>(engine.selectUsers, keysOf(rows), { isLong: true })).map(toUser),

    lastId: async () => Number((await read(engine.selectLastId, [], { isLong: true }))[0]?.[0]),

    write: batch =>
      transaction(function* () {
        const outcomes = yield* write(batch)
        const checkpoint = batch.checkpointAfter(outcomes)
        yield* ask(UPSERT_CHECKPOINT, [checkpoint.source, jsonOf(checkpoint)])
        return outcomes
      }),
  }
}

/** Finds users by `selectUsers` of an engine. */
export function* findUsers(sql: string, rows: readonly ImportKeys[]): Program<UserRow[]> {
  return (yield* ask<FoundRow>(sql, keysOf(rows))).map(toUser)
}

interface WriterOptions {
  readonly now: () => number
  /** Whether `fail` ends a batch at the first conflict. */
  readonly endsAtConflict: boolean
}

/** Returns the program that writes the users of a batch, and returns what became of each. */
export function createBatchWriter(engine: ImportEngine, { now, endsAtConflict }: WriterOptions) {
  const { elements, wordsFrom, insertFree = insert => insert, takeIds } = engine
  const rows = `(SELECT ${ROW_COLUMNS}, ${wordsFrom(`value->>${ROW_TEXTS.length + 1}`)} AS words FROM ${elements})`
  const park = `
    UPDATE users SET email = '#' || id
    WHERE id IN (SELECT CAST(value->>0 AS bigint) FROM ${elements})`
  const update = `
    UPDATE users SET ${assign(CHANGED_COLUMNS, 'changed')} FROM ${rows} AS changed
    WHERE users.id = changed.id`
  const insert = insertFree(`
    INSERT INTO users (${STORED_COLUMNS}) SELECT ${STORED_COLUMNS} FROM ${rows} AS new`)

  /** What a batch does, in the order of its rows up to the conflict that ends it. */
  function plan(
    { users, onConflict }: ImportBatch,
    existing: readonly UserRow[],
    idFor: (place: number) => number,
  ) {
    const decide = createImportDecisions({ existing, onConflict, now })
    const outcomes: ImportOutcome[] = []
    // Of the rows that create users.
    const places: number[] = []
    // By id, in the order of their rows, as they are after all rows.
    const created = new Map<number, UserRow>()
    const changed = new Map<number, UserRow>()
    for (const [place, row] of users.entries()) {
      const { outcome, after } = decide(row, () => idFor(place))
      outcomes.push(outcome)
      if (outcome === 'created') places.push(place)
      if (after !== undefined) {
        const planned = outcome === 'created' || created.has(after.id) ? created : changed
        planned.set(after.id, after)
      }
      if (endsAtConflict && onConflict === 'fail' && outcome !== 'created') break
    }
    return { outcomes, places, created, changed }
  }

  /** Plans as if nobody else took ids, and again if somebody does. */
  function* planWithIds(
    batch: ImportBatch,
    existing: readonly UserRow[],
  ): Program<ReturnType<typeof plan>> {
    const [[lastId] = [0]] = yield* ask<[number]>(engine.selectLastId)
    const countId = createIdCounter(lastId)
    const likely = plan(batch, existing, place => countId(batch.users[place]?.id))
    const { places, created } = likely
    if (takeIds === undefined || places.length === 0) return likely
    const taken = yield* takeIds(places.map(place => batch.users[place]?.id))
    if (String(taken) === String([...created.keys()])) return likely
    const ids = new Map(places.map((place, index) => [place, taken[index]]))
    return plan(batch, existing, place => {
      const id = ids.get(place)
      if (id === undefined) throw new Race()
      return id
    })
  }

  return function* (batch: ImportBatch): Program<readonly ImportOutcome[]> {
    const { users, onConflict } = batch
    if (users.length === 0) return []
    // Only an update changes the users that it finds.
    const lock = onConflict === 'update' ? engine.lock : ''
    const existing = yield* findUsers(`${engine.selectUsers} ${lock}`, users)
    const planned = yield* planWithIds(batch, existing)
    const created = inOrderOfIds(planned.created)
    const changed = inOrderOfIds(planned.changed)
    if (changed.length > 0) {
      const parked = idsToPark(existing, changed)
      if (parked.length > 0) yield* ask(park, [JSON.stringify(parked)])
      yield* ask(update, [rowsOf(changed)])
    }
    if (created.length > 0) {
      const [[inserted] = [created.length]] = yield* ask<[number]>(insert, [rowsOf(created)])
      if (inserted < created.length) throw new Race()
    }
    return planned.outcomes
  }
}

const CHANGED_TEXTS = ['name', 'name_lower', 'email', 'password_digest', 'updated_at']

const CHANGED_COLUMNS = [...CHANGED_TEXTS, 'words']

const STORED_COLUMNS = ['id', ...CHANGED_COLUMNS, 'created_at'].join(', ')

const ROW_TEXTS = [...CHANGED_TEXTS, 'created_at']

/** Without the words, which follow. */
const ROW_COLUMNS = ['CAST(value->>0 AS bigint) AS id']
  .concat(ROW_TEXTS.map((name, at) => `value->>${at + 1} AS ${name}`))
  .join(', ')

/** The order in which FTS5 writes one tree, and not one for each user. */
function inOrderOfIds(users: ReadonlyMap<number, UserRow>): readonly UserRow[] {
  return [...users.values()].sort((one, other) => one.id - other.id)
}

/** The set of `ROW_COLUMNS` of users, and their words. */
function rowsOf(users: readonly UserRow[]): string {
  const rows = users.map(user => {
    const { id, name, email, passwordDigest, updatedAt, createdAt } = user
    const words = wordsOfUser(user)
    return [id, name, foldCase(name), email, passwordDigest, updatedAt, createdAt, words]
  })
  return JSON.stringify(rows)
}

function assign(columns: readonly string[], from: string): string {
  return columns.map(name => `${name} = ${from}.${name}`).join(', ')
}

function keysOf(rows: readonly ImportKeys[]): readonly string[] {
  const ids = rows.flatMap(({ id }) => id ?? [])
  return [rows.map(({ email }) => emailKey(email)), ids].map(keys => JSON.stringify(keys))
}

function toUser([id, name, email, passwordDigest, createdAt, updatedAt]: FoundRow): UserRow {
  return { id, name, email, passwordDigest, createdAt, updatedAt }
}

/**
 * The changed users whose present e-mail becomes that of another changed user. They get one that no user can have until they
 * get their new one.
 */
function idsToPark(existing: readonly UserRow[], changed: readonly UserRow[]): [id: number][] {
  const owners = new Map(existing.map(({ id, email }) => [emailKey(email), id]))
  const ids = new Set(changed.map(({ id }) => id))
  return changed.flatMap(({ id, email }) => {
    const owner = owners.get(emailKey(email))
    return owner === undefined || owner === id || !ids.has(owner) ? [] : [[owner]]
  })
}

const SELECT_CHECKPOINT = `SELECT checkpoint FROM imports WHERE source = $1`

const UPSERT_CHECKPOINT = `
  INSERT INTO imports (source, checkpoint) VALUES ($1, $2)
  ON CONFLICT (source) DO UPDATE SET checkpoint = excluded.checkpoint`

/** Its hash is in hexadecimal. */
function jsonOf(checkpoint: ImportCheckpoint): string {
  return JSON.stringify({ ...checkpoint, recordsHash: checkpoint.recordsHash.toString('hex') })
}

function toCheckpoint(json: string): ImportCheckpoint {
  const checkpoint = JSON.parse(json)
  return { ...checkpoint, recordsHash: Buffer.from(checkpoint.recordsHash, 'hex') }
}
