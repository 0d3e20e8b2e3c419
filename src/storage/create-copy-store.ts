import { type Asked, ask, type Program } from './programs.ts'
import type { SharedStatements } from './storage.ts'
import { UnusableDatabase } from './unusable-database.ts'

/** A secret of a database, by its name. */
export interface SigningKey {
  readonly name: string
  readonly key: Buffer
}

/** The create that an Idempotency-Key was used for. The last three are null once its user was deleted. */
export interface KeptCreate {
  /** SHA-256 of the key, 32 bytes. */
  readonly keyHash: Buffer
  readonly userId: number
  /** By the clock `steadyNow`, in milliseconds. */
  readonly expiresAt: number
  readonly fingerprint: string | null
  readonly userVersion: string | null
  readonly userJson: string | null
}

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

const SELECT_SIGNING_KEYS = `SELECT name, key FROM signing_keys ORDER BY name`

const UPSERT_SIGNING_KEY = `
  INSERT INTO signing_keys (name, key) VALUES ($1, $2)
  ON CONFLICT (name) DO UPDATE SET key = excluded.key`

const CREATE_COLUMNS = 'key_hash, user_id, expires_at, fingerprint, user_version, user_json'

const SELECT_CREATES = `
  SELECT ${CREATE_COLUMNS} FROM idempotency_keys WHERE key_hash > $1 ORDER BY key_hash LIMIT 1000`

/** The parameters of a statement are few. */
const CREATES_A_STATEMENT = 100

type CreateRow = readonly [Buffer, number, number, string | null, string | null, string | null]

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

  const runAll = (statements: readonly Asked[]) =>
    transaction(
      function* () {
        for (const { sql, values } of statements) yield* ask(sql, values)
      },
      { isLong: true },
    )

  return {
    /**
     * Makes an unfinished copy, and empties it, of which `run` is the name of the copy that fills it. Throws `UnusableDatabase` for
     * a database that is neither empty nor an unfinished copy.
     */
    begin: async (run: string) => {
      await transaction(() => mark(run), { isLong: true })
      for (let hasMore = true; hasMore; ) hasMore = (await write(DELETE_USERS, [])).length > 0
      await runAll(DELETE_REST.map(sql => ({ sql, values: [] })))
    },

    /** Removes the mark of an unfinished copy. Returns false, without a change, if another copy has begun since. */
    complete: async (run: string) => {
      await write(`DELETE FROM imports`, [])
      return (await write(DELETE_MARK, [run])).length > 0
    },

    signingKeys: async () => {
      const rows = await read<[string, Buffer]>(SELECT_SIGNING_KEYS)
      return rows.map(([name, key]): SigningKey => ({ name, key }))
    },

    /** Replaces those of the same names. */
    keepSigningKeys: (keys: readonly SigningKey[]) =>
      runAll(keys.map(({ name, key }) => ({ sql: UPSERT_SIGNING_KEY, values: [name, key] }))),

    /** The next in the order of hashes, expired ones among them; none at the end. */
    keptCreates: async (after: Buffer) =>
      (await read<CreateRow>(SELECT_CREATES, [after])).map(toCreate),

    keepCreates: (creates: readonly KeptCreate[]) => {
      const inserts: Asked[] = []
      for (let at = 0; at < creates.length; at += CREATES_A_STATEMENT)
        inserts.push(insertOf(creates.slice(at, at + CREATES_A_STATEMENT)))
      return runAll(inserts)
    },

    /** New users get ids above this one. */
    reserveIds: (through: number) => runAll(reserveIds.map(sql => ({ sql, values: [through] }))),
  }
}

function toCreate(row: CreateRow): KeptCreate {
  const [keyHash, userId, expiresAt, fingerprint, userVersion, userJson] = row
  return { keyHash, userId, expiresAt, fingerprint, userVersion, userJson }
}

function insertOf(creates: readonly KeptCreate[]): Asked {
  const values = creates.flatMap(create => [
    ...[create.keyHash, create.userId, create.expiresAt],
    ...[create.fingerprint, create.userVersion, create.userJson],
  ])
  const rows = creates.map((_, row) => `(${[1, 2, 3, 4, 5, 6].map(nth => `$${6 * row + nth}`)})`)
  return { sql: `INSERT INTO idempotency_keys (${CREATE_COLUMNS}) VALUES ${rows}`, values }
}
