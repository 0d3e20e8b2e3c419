import type { Database } from 'better-sqlite3'
import { translateSqliteError } from '../storage/sqlite-errors.ts'
import type {
  ConflictPolicy,
  ImportedUser,
  ImportOutcome,
  UserImportStore,
} from './user-import-store.ts'

/** Those of the import so far, on disk and not in memory, because there may be millions; gone with the connection. */
const CREATE_ADMITTED = `
  CREATE TEMP TABLE admitted (
    email TEXT CONSTRAINT admitted_email_unique UNIQUE,
    id INTEGER CONSTRAINT admitted_id_unique UNIQUE
  ) STRICT`

/** An id that is there gets the address; its former one is free again. */
const ADMIT = `INSERT OR REPLACE INTO temp.admitted (email, id) VALUES (lower(?), ?)`

/** `null` where the storage would give it. */
const SELECT_ADMITTED_ID = `SELECT id FROM temp.admitted WHERE email = lower(?)`

const IS_ID_ADMITTED = `SELECT 1 FROM temp.admitted WHERE id = ?`

interface UserRow {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly password_digest: string | null
}

const SELECT_BY_EMAIL = `
  SELECT id, name, email, password_digest FROM users WHERE lower(email) = lower(?)`

const SELECT_BY_ID = `SELECT id, name, email, password_digest FROM users WHERE id = ?`

/** Tells what would become of users, and keeps nothing of them. */
export function createSqliteDryRunImportStore(database: Database): UserImportStore {
  database.exec(CREATE_ADMITTED)
  const admit = database.prepare<[string, number | null]>(ADMIT)
  const selectAdmittedId = database.prepare<[string], number | null>(SELECT_ADMITTED_ID).pluck()
  const isIdAdmitted = database.prepare<[number]>(IS_ID_ADMITTED).pluck()
  const selectByEmail = database.prepare<[string], UserRow>(SELECT_BY_EMAIL)
  const selectById = database.prepare<[number], UserRow>(SELECT_BY_ID)

  function outcomeOf(user: ImportedUser, onConflict: ConflictPolicy): ImportOutcome {
    const { id, email } = user
    const byEmail = selectByEmail.get(email)
    const byId = id === undefined ? undefined : selectById.get(id)
    const owner = byEmail?.id ?? selectAdmittedId.get(email)
    const hasEmail = owner !== undefined
    const hasId = byId !== undefined || (id !== undefined && isIdAdmitted.get(id) !== undefined)
    if (!hasEmail && !hasId) {
      admit.run(email, id ?? null)
      return 'created'
    }
    if (onConflict === 'skip') return 'skipped'
    if (onConflict === 'fail') return hasEmail ? 'email_taken' : 'id_taken'
    if (hasEmail && owner !== (id ?? owner)) return 'email_taken'
    admit.run(email, owner ?? id ?? null)
    const current = byEmail ?? byId
    return current !== undefined && isSame(current, user) ? 'unchanged' : 'updated'
  }

  const outcomesOf = database.transaction(
    (users: readonly ImportedUser[], onConflict: ConflictPolicy) => {
      const outcomes: ImportOutcome[] = []
      for (const user of users) {
        const outcome = outcomeOf(user, onConflict)
        outcomes.push(outcome)
        if (onConflict === 'fail' && outcome !== 'created') break
      }
      return outcomes
    },
  )

  return {
    findCheckpoint: async () => undefined,
    findDigestByEmail: async () => undefined,
    write: async ({ users, onConflict, checkpointAfter }) => {
      try {
        const outcomes = outcomesOf(users, onConflict)
        checkpointAfter(outcomes)
        return outcomes
      } catch (error) {
        throw translateSqliteError(error)
      }
    },
  }
}

function isSame(current: UserRow, { name, email, passwordDigest }: ImportedUser): boolean {
  const { password_digest: digest } = current
  return current.name === name && current.email === email && (passwordDigest ?? digest) === digest
}
