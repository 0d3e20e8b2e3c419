import { ServiceError } from '../../errors.ts'
import { storedUser, usedUp } from '../../users/stored-user.ts'
import type { ExpectedVersions, StoredUser, UserChange } from '../../users/user-repository.ts'
import { foldCase, takenEmail } from '../../users/user-schemas.ts'
import type { NamedUser } from '../../users/words.ts'
import type { Closing, Outcome } from './batches.ts'
import type { Connections, Session, Statement } from './postgres-connections.ts'
import { violates } from './postgres-errors.ts'
import { representationOf } from './user-reads.ts'
import { upsertWords, WRITES_WORDS } from './user-words.ts'
import { APART, createWriteBatches } from './write-batches.ts'

interface Change {
  readonly id: number
  readonly change: UserChange
  readonly expected: ExpectedVersions
}

type Changed = StoredUser | 'digest_changed' | undefined

/** What the statement says of each user, with the user after it. */
type ResultRow = readonly [id: number, verdict: Verdict, json: string | null]

type Verdict =
  | 'absent'
  | 'locked'
  | 'version_mismatch'
  | 'digest_changed'
  | 'same'
  | 'email_taken'
  | 'changed'

/**
 * Locks the users in the order of their ids, then decides and changes. A NULL in a column of `wanted` leaves the field as it
 * is. A user that is there but was not locked is locked by another transaction. Only the locked users are read as they are
 * now: other reads see the state at the start of the statement, perhaps with an e-mail that the same user has since given up.
 * The time is later than before even if the clock stands still or went back; after the year 9999 it violates `users_times`.
 */
function changeSql({ skipsLocked }: { readonly skipsLocked: boolean }): string {
  const others = skipsLocked ? 'SKIP LOCKED' : ''
  const notFound = skipsLocked
    ? `CASE WHEN EXISTS (SELECT FROM users WHERE users.id = wanted.id) THEN 'locked' ELSE 'absent' END`
    : `'absent'`
  return `
    WITH wanted AS (
      SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::text[],
          $7::boolean[], $8::text[], $9::text[])
        AS wanted (id, name, name_lower, email, has_digest, digest, has_judged, judged, versions)
    ), found AS (
      SELECT id, name, name_lower, email, email_lower, password_digest, updated_at, shown
      FROM users WHERE id = ANY ($1::bigint[])
      ORDER BY id FOR NO KEY UPDATE ${others}
    ), decided AS (
      SELECT found.id, ${representationOf('found')} AS json, found.updated_at AS version,
        coalesce(wanted.name, found.name) AS name,
        coalesce(wanted.name_lower, found.name_lower) AS name_lower,
        coalesce(wanted.email, found.email) AS email,
        CASE WHEN has_digest THEN digest ELSE password_digest END AS digest,
        CASE
          WHEN found.updated_at <> ALL (string_to_array(versions, ' ')) THEN 'version_mismatch'
          WHEN has_judged AND judged IS DISTINCT FROM password_digest THEN 'digest_changed'
          WHEN coalesce(wanted.name, found.name) = found.name
            AND coalesce(wanted.email, found.email) = found.email
            AND NOT (has_digest AND digest IS DISTINCT FROM password_digest) THEN 'same'
          WHEN lower(wanted.email COLLATE "C") <> email_lower AND EXISTS (
            SELECT FROM users AS other
            WHERE other.email_lower = lower(wanted.email COLLATE "C") AND other.id <> found.id)
            THEN 'email_taken'
          ELSE 'changed'
        END AS verdict
      FROM found JOIN wanted USING (id)
    ), changed AS (
      UPDATE users SET name = decided.name, name_lower = decided.name_lower, email = decided.email,
        password_digest = decided.digest,
        updated_at = CASE WHEN $10 > users.updated_at COLLATE "C" THEN $10 ELSE
          to_char(users.updated_at::timestamptz AT TIME ZONE 'UTC' + interval '1 millisecond',
            'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END
      FROM decided WHERE users.id = decided.id AND verdict = 'changed' AND ${WRITES_WORDS}
      RETURNING users.id, ${representationOf('users')} AS json
    )
    SELECT wanted.id,
      coalesce(verdict, ${notFound}),
      coalesce(changed.json, decided.json)
    FROM wanted LEFT JOIN decided USING (id) LEFT JOIN changed USING (id)`
}

const CHANGE: Statement = { name: 'change_users', text: changeSql({ skipsLocked: true }) }

const CHANGE_PATIENTLY: Statement = {
  name: 'change_users_patiently',
  text: changeSql({ skipsLocked: false }),
}

/** The form of all versions that this storage gives out. */
const VERSION_CHARS = '2026-01-31T12:00:00.000Z'.length

export interface ChangeUsersOptions {
  readonly connections: Connections
  readonly closing: Closing
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly maxWaiting: number
}

/** `UserRepository.update`, with one statement for the calls of one turn of the event loop. */
export function createUserChanger(
  options: ChangeUsersOptions,
): (id: number, change: UserChange, expected?: ExpectedVersions) => Promise<Changed> {
  const { connections, closing, now, maxWaiting } = options

  async function write(session: Session, changes: readonly Change[], isAlone: boolean) {
    const statement = isAlone ? CHANGE_PATIENTLY : CHANGE
    const rows = await session.query<ResultRow>(statement, valuesOf(changes, now()))
    await upsertWords(session, renamedBy(changes, rows))
    const results = new Map(rows.map(([id, verdict, json]) => [id, outcomeOf(verdict, json)]))
    return changes.map(({ id }) => results.get(id) as Outcome<Changed> | typeof APART)
  }

  const batches = createWriteBatches<Change, Changed>({
    connections,
    closing,
    maxWaiting,
    keysOf: ({ id, change: { email } }) =>
      email === undefined ? [String(id)] : [String(id), email.toLowerCase()],
    isTransaction: changes => changes.some(renames),
    write,
  })

  return async (id, change, expected) => {
    try {
      return await batches.add({ id, change, expected })
    } catch (error) {
      if (violates(error, 'users_email_unique')) throw takenEmail()
      throw violates(error, 'users_times') ? usedUp('times') : error
    }
  }
}

/** Whether the words of the user may change. */
function renames({ change: { name, email } }: Change): boolean {
  return name !== undefined || email !== undefined
}

/** The users with a new name or e-mail, as they now are. */
function renamedBy(changes: readonly Change[], rows: readonly ResultRow[]) {
  const ids = new Set(changes.filter(renames).map(({ id }) => id))
  return rows.flatMap(([id, verdict, json]) => {
    if (verdict !== 'changed' || json === null || !ids.has(id)) return []
    const { name, email }: NamedUser = JSON.parse(json)
    return [{ id, name, email }]
  })
}

function valuesOf(changes: readonly Change[], now: number): readonly unknown[] {
  const fields = changes.map(({ change }) => change)
  return [
    changes.map(({ id }) => id),
    fields.map(({ name }) => name),
    fields.map(({ name }) => name && foldCase(name)),
    fields.map(({ email }) => email),
    fields.map(({ passwordDigest }) => passwordDigest !== undefined),
    fields.map(({ passwordDigest }) => passwordDigest),
    fields.map(({ judgedDigest }) => judgedDigest !== undefined),
    fields.map(({ judgedDigest }) => judgedDigest),
    changes.map(({ expected }) => expected && joinVersions(expected)),
    new Date(now).toISOString(),
  ]
}

/** Versions as the statements take them. Clients may send anything, also spaces. */
export function joinVersions(versions: readonly string[]): string {
  const possible = versions.filter(
    version => version.length === VERSION_CHARS && !version.includes(' '),
  )
  // A list of no versions would be no list to SQL.
  return possible.length === 0 ? '-' : possible.join(' ')
}

function outcomeOf(verdict: Verdict, json: string | null): Outcome<Changed> | typeof APART {
  switch (verdict) {
    case 'locked':
      return APART
    case 'absent':
      return { value: undefined }
    case 'digest_changed':
      return { value: verdict }
    case 'version_mismatch':
      return { error: new ServiceError(verdict) }
    case 'email_taken':
      return { error: takenEmail() }
    default:
      return { value: storedUser(json as string) }
  }
}
