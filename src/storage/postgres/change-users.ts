import { decideChange, requireVersion } from '../../users/decide-change.ts'
import { showUser } from '../../users/stored-user.ts'
import type { UserRepository, UserRow } from '../../users/user-repository.ts'
import { foldCase, takenEmail } from '../../users/user-schemas.ts'
import type { Gate } from '../gate.ts'
import { createLookup } from './batches.ts'
import { type ContendedWrites, HELD } from './contended-writes.ts'
import type { Connections } from './postgres-connections.ts'
import { violates } from './postgres-errors.ts'
import type { UserReads } from './user-reads.ts'
import { REPLACE_WORDS, vectorOf, WRITES_WORDS, wordsText } from './user-words.ts'

const FIND_ROWS = {
  name: 'find_rows',
  text: `
    SELECT id, name, email, password_digest, created_at, updated_at, xmin
    FROM users WHERE id = ANY ($1::bigint[])`,
}

/** SQL that locks a user, unless another transaction holds it. */
const lockSql = (condition: string, strength: string) => `
  found AS (SELECT id FROM users WHERE id = $1 AND ${condition} FOR ${strength} SKIP LOCKED)`

/**
 * Changes a user if it still is what was read: each change of a row gives it another `xmin`, the number of a transaction.
 * The words are NULL if name and e-mail stay.
 */
const CHANGE = {
  name: 'change_user',
  text: `
    WITH ${lockSql('xmin = $2::xid', 'NO KEY UPDATE')}, changed AS (
      UPDATE users SET name = $3, name_lower = $4, email = $5, password_digest = $6, updated_at = $7
      FROM found WHERE users.id = found.id AND ${WRITES_WORDS}
      RETURNING users.id
    ), named AS (
      INSERT INTO users_words AS former (id, words)
      SELECT id, ${vectorOf('$8::text')} FROM changed WHERE $8::text IS NOT NULL
      ${REPLACE_WORDS}
    )
    SELECT id FROM changed`,
}

/** Says whether it has deleted the user, and whether there was one. Any `xmin` will do if $2 is NULL. */
const DELETE = {
  name: 'delete_user',
  text: `
    WITH ${lockSql('xmin = coalesce($2::xid, xmin)', 'UPDATE')}, deleted AS (
      DELETE FROM users USING found WHERE users.id = found.id RETURNING users.id
    )
    SELECT EXISTS (SELECT FROM deleted), EXISTS (SELECT FROM users WHERE id = $1)`,
}

/** Leaves a user that another transaction holds as it is: that transaction may be changing the password. */
const REPLACE_DIGEST = {
  name: 'replace_digest',
  text: `
    WITH ${lockSql('password_digest = $2', 'NO KEY UPDATE')}
    UPDATE users SET password_digest = $3 FROM found WHERE users.id = found.id
    RETURNING users.id`,
}

interface ReadRow extends UserRow {
  readonly xmin: string
}

export interface ChangeUsersOptions {
  readonly connections: Connections
  readonly closing: Gate
  readonly contended: ContendedWrites
  readonly reads: Pick<UserReads, 'findOwner'>
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/**
 * The writes to users that exist. Each is one statement for one user. An update is decided on what was read before, and once
 * more if another transaction has changed the user meanwhile.
 */
export function createUserChanges(
  options: ChangeUsersOptions,
): Pick<UserRepository, 'update' | 'replaceDigest' | 'delete'> {
  const { connections, closing, contended, reads, now } = options

  const rows = createLookup<number, ReadRow>(closing, async ids => {
    type Columns = [number, string, string, string | null, string, string, xmin: string]
    const found = await connections.read(session => session.query<Columns>(FIND_ROWS, [ids]))
    return found.map(([id, name, email, passwordDigest, createdAt, updatedAt, xmin]) => [
      id,
      { id, name, email, passwordDigest, createdAt, updatedAt, xmin },
    ])
  })

  /** Whether the user was still as it was read, and free. */
  async function write({ xmin, ...before }: ReadRow, after: UserRow, deadline: number) {
    const { id, name, email, passwordDigest, updatedAt } = after
    const isRenamed = name !== before.name || email !== before.email
    const words = isRenamed ? wordsText(after) : null
    const values = [id, xmin, name, foldCase(name), email, passwordDigest, updatedAt, words]
    const { length } = await connections.write(session => session.query(CHANGE, values), {
      deadline,
      countWrites: changed => changed.length,
    })
    return length === 1
  }

  /** Looks first: the server writes a violation of the constraint into its log, with the e-mail. */
  async function requireFree(email: string, before: UserRow): Promise<void> {
    const key = email.toLowerCase()
    if (key === before.email.toLowerCase()) return
    if ((await reads.findOwner(key)) !== undefined) throw takenEmail()
  }

  return {
    update: (id, change, expected) =>
      contended.run([String(id)], async deadline => {
        const before = await rows.add(id)
        if (before === undefined) return undefined
        const after = decideChange(before, change, { now: now(), expected })
        if (after === 'digest_changed') return after
        if (after === before) return showUser(before)
        await requireFree(after.email, before)
        try {
          return (await write(before, after, deadline)) ? showUser(after) : HELD
        } catch (error) {
          throw violates(error, 'users_email_unique') ? takenEmail() : error
        }
      }),

    replaceDigest: async (id, { previous, next }) => {
      const values = [id, previous, next]
      const { length } = await connections.write(session => session.query(REPLACE_DIGEST, values), {
        countWrites: () => 1,
      })
      return length === 1
    },

    delete: (id, expected) =>
      contended.run([String(id)], async deadline => {
        let xmin: string | undefined
        if (expected !== undefined) {
          const before = await rows.add(id)
          if (before === undefined) return false
          requireVersion(before, expected)
          xmin = before.xmin
        }
        return connections.write(
          async session => {
            const [row] = await session.query<DeletedRow>(DELETE, [id, xmin])
            const [isDeleted, wasThere] = row as DeletedRow
            return wasThere && !isDeleted ? HELD : isDeleted
          },
          { deadline, countWrites: result => Number(result !== HELD) },
        )
      }),
  }
}

type DeletedRow = readonly [isDeleted: boolean, wasThere: boolean]
