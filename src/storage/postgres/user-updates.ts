import { decideChange, requireVersion, showUser } from '../../users/stored-user.ts'
import type {
  StoredUser,
  UserRepository,
  UserRow,
  UserUpdate,
} from '../../users/user-repository.ts'
import { emailKey, foldCase, takenEmail } from '../../users/user-schemas.ts'
import { wordsOfUser } from '../../users/words.ts'
import { joinLookups } from '../join-calls.ts'
import { HELD, joinWrites } from './contended-writes.ts'
import type { UserWriteParts } from './create-users.ts'
import { columnsOf, type Row } from './postgres-connections.ts'
import { violates } from './postgres-errors.ts'
import { POSTGRES_WORDS } from './user-reads.ts'

const FIND_ROWS = {
  name: 'find_rows',
  text: `
    SELECT id, name, email, password_digest, created_at, updated_at, xmin
    FROM users WHERE id = ANY ($1::bigint[])`,
}

/**
 * Changes the users that still are what was read and that no other transaction holds: each change of a row gives it another
 * `xmin`, the number of a transaction. The words are NULL where name and e-mail stay.
 */
const CHANGE = {
  name: 'change_users',
  text: `
    WITH wanted AS (
      SELECT * FROM unnest(
          $1::bigint[], $2::xid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
        AS wanted (id, read_xmin, name, name_lower, email, digest, updated_at, words)
    ), found AS (
      SELECT wanted.* FROM users JOIN wanted ON users.id = wanted.id AND users.xmin = read_xmin
      ORDER BY users.id FOR NO KEY UPDATE OF users SKIP LOCKED
    ), changed AS (
      UPDATE users SET name = found.name, name_lower = found.name_lower, email = found.email,
        password_digest = found.digest, updated_at = found.updated_at,
        words = coalesce(${POSTGRES_WORDS.wordsFrom('found.words')}, users.words)
      FROM found WHERE users.id = found.id
      RETURNING users.id
    )
    SELECT id FROM changed`,
}

/**
 * Deletes lists of users. Of a list of which another transaction holds a user, or has changed one since `read_xmin`, it deletes
 * none. The number of a list stands beside each of its ids. Returns those that existed, and whether each is deleted now.
 */
const DELETE = {
  name: 'delete_users',
  text: `
    WITH wanted AS MATERIALIZED (
      SELECT users.id, list, read_xmin FROM users
        JOIN unnest($1::bigint[], $2::integer[], $3::xid[]) AS sent (id, list, read_xmin) USING (id)
    ), found AS (
      SELECT users.id, list FROM users
        JOIN wanted ON users.id = wanted.id AND users.xmin = coalesce(read_xmin, users.xmin)
      ORDER BY users.id FOR UPDATE OF users SKIP LOCKED
    ), free AS MATERIALIZED (
      SELECT id FROM found
      WHERE list NOT IN (SELECT list FROM wanted WHERE id NOT IN (SELECT id FROM found))
    ), deleted AS (
      DELETE FROM users USING free WHERE users.id = free.id RETURNING users.id
    )
    SELECT wanted.id, list, deleted.id IS NOT NULL FROM wanted LEFT JOIN deleted USING (id)`,
}

/** Leaves a user that another transaction holds as it is: that transaction may be changing the password. */
const REPLACE_DIGEST = {
  name: 'replace_digest',
  text: `
    WITH found AS (
      SELECT id FROM users WHERE id = $1 AND password_digest = $2 FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE users SET password_digest = $3 FROM found WHERE users.id = found.id
    RETURNING users.id`,
}

interface ReadRow extends UserRow {
  readonly xmin: string
}

/** Without `xmin`, whatever another transaction has made of the user. */
type DeletedUser = Pick<ReadRow, 'id'> & Partial<Pick<ReadRow, 'xmin'>>

interface Change {
  readonly before: ReadRow
  readonly after: UserRow
}

/**
 * The writes to users that exist. An update is decided on what was read before, and once more if another transaction has
 * changed the user meanwhile. What is decided in one turn of the event loop is written by one statement.
 */
export function createUserUpdates(
  parts: UserWriteParts,
): Pick<UserRepository, 'update' | 'replaceDigest' | 'delete' | 'deleteAll'> {
  const { connections, contended, reads, now } = parts

  const find = joinLookups<number, ReadRow>(async ids => {
    type Columns = [number, string, string, string | null, string, string, xmin: string]
    const found = await connections.query<Columns>(FIND_ROWS, [ids])
    return found.map(([id, name, email, passwordDigest, createdAt, updatedAt, xmin]) => [
      id,
      { id, name, email, passwordDigest, createdAt, updatedAt, xmin },
    ])
  })

  const change = joinWrites<Change, StoredUser>(async (changes, options) => {
    const rows = await connections.write<[id: number]>(CHANGE, columnsOf(changes.map(toRow)), {
      ...options,
      countWrites: ({ length }) => length,
    })
    const changed = new Set(rows.map(([id]) => id))
    return changes.map(({ after }) =>
      changed.has(after.id) ? { value: showUser(after) } : { error: HELD },
    )
  })

  const remove = joinWrites<readonly DeletedUser[], readonly number[]>(async (lists, options) => {
    const sent = lists.flatMap((users, list) => users.map(({ id, xmin }) => [id, list, xmin]))
    type FoundRow = [id: number, list: number, isDeleted: boolean]
    const found = await connections.write<FoundRow>(DELETE, columnsOf(sent), {
      ...options,
      // A list that finds nobody is a write too.
      countWrites: rows =>
        rows.filter(([, , isDeleted]) => isDeleted).length +
        lists.length -
        new Set(rows.map(([, list]) => list)).size,
    })
    const deleted = lists.map((): number[] => [])
    const held = new Set<number>()
    for (const [id, list, isDeleted] of found) {
      if (isDeleted) deleted[list]?.push(id)
      else held.add(list)
    }
    return deleted.map((ids, list) => (held.has(list) ? { error: HELD } : { value: ids }))
  })

  /** Looks first: the server writes a violation of the constraint into its log, with the e-mail. */
  async function requireFree(email: string, before: UserRow): Promise<void> {
    if (emailKey(email) === emailKey(before.email)) return
    if (await reads.isEmailTaken(email)) throw takenEmail()
  }

  return {
    update: (id, update, precondition) =>
      contended.run(keysOf(id, update), async write => {
        const before = await find(id)
        if (before === undefined) return undefined
        const after = decideChange(before, update, { now: now(), precondition })
        if (after === 'digest_changed') return after
        if (after === before) return showUser(before)
        await requireFree(after.email, before)
        return write(change, { before, after }).catch(error => {
          throw violates(error, 'users_email_unique') ? takenEmail() : error
        })
      }),

    replaceDigest: async (id, { previous, next }) => {
      const values = [id, previous, next]
      const done = await connections.write(REPLACE_DIGEST, values, { countWrites: () => 1 })
      return done.length === 1
    },

    delete: (id, precondition) =>
      contended.run([String(id)], async write => {
        if (precondition === undefined) return (await write(remove, [{ id }])).length === 1
        const before = await find(id)
        if (before === undefined) return false
        requireVersion(before, precondition)
        return (await write(remove, [before])).length === 1
      }),

    deleteAll: ids => {
      const users = ids.map(id => ({ id }))
      return contended.run(ids.map(String), write => write(remove, users))
    },
  }
}

/** What no other write may change or claim at the same time: with one e-mail twice, the statement would fail for all. */
function keysOf(id: number, { email }: UserUpdate): readonly string[] {
  return email === undefined ? [String(id)] : [String(id), emailKey(email)]
}

function toRow({ before, after }: Change): Row {
  const { id, name, email, passwordDigest, updatedAt } = after
  const isRenamed = before.name !== name || before.email !== email
  const words = isRenamed ? wordsOfUser(after) : null
  return [id, before.xmin, name, foldCase(name), email, passwordDigest, updatedAt, words]
}
