import { laterThan, requireExactId } from '../../users/stored-user.ts'
import type {
  ConflictPolicy,
  ImportedUser,
  ImportOutcome,
} from '../../users/transfer/user-import-store.ts'

/** A user with all columns that imports write. */
export interface UserRow {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly passwordDigest: string | null
  readonly createdAt: string
  readonly updatedAt: string
}

export interface Decision {
  readonly outcome: ImportOutcome
  /** The user as it then is, if the row created or changed it. */
  readonly written?: UserRow
}

/** Decides about rows in their order. Each sees what those before it did. */
export interface ImportDecisions {
  /** Adds users that the database has. One that is known already stays as it is: a row may have changed it since. */
  add(users: readonly UserRow[]): void
  findByEmail(email: string): UserRow | undefined
  /** The users with the e-mail and the id of the row must have been added. `takeId` is called if the row creates a user. */
  decide(row: ImportedUser, onConflict: ConflictPolicy, takeId: () => number): Decision
}

/** `now` is in milliseconds since the epoch. */
export function createImportDecisions(now: () => number): ImportDecisions {
  const byId = new Map<number, UserRow>()
  const byEmail = new Map<string, UserRow>()

  function put(user: UserRow): void {
    byId.set(user.id, user)
    byEmail.set(emailKey(user.email), user)
  }

  function create(row: ImportedUser, id: number): Decision {
    const { name, email, passwordDigest = null } = row
    const time = new Date(now()).toISOString()
    const { createdAt = row.updatedAt ?? time, updatedAt = createdAt } = row
    const written = { id, name, email, passwordDigest, createdAt, updatedAt }
    put(written)
    return { outcome: 'created', written }
  }

  function change(user: UserRow, row: ImportedUser): Decision {
    const { name, email, passwordDigest = user.passwordDigest } = row
    const isEqual =
      name === user.name && email === user.email && passwordDigest === user.passwordDigest
    if (isEqual) return { outcome: 'unchanged' }
    const updatedAt = laterThan(user.updatedAt, now())
    const written = { ...user, name, email, passwordDigest, updatedAt }
    byEmail.delete(emailKey(user.email))
    put(written)
    return { outcome: 'updated', written }
  }

  return {
    add: users => {
      for (const user of users) {
        if (!byId.has(user.id) && !byEmail.has(emailKey(user.email))) put(user)
      }
    },

    findByEmail: email => byEmail.get(emailKey(email)),

    decide: (row, onConflict, takeId) => {
      const owner = byEmail.get(emailKey(row.email))
      const namesake = row.id === undefined ? undefined : byId.get(row.id)
      const existing = owner ?? namesake
      if (existing === undefined) return create(row, takeId())
      if (onConflict === 'skip') return { outcome: 'skipped' }
      const belongsToTwo = namesake !== undefined && namesake !== existing
      if (onConflict === 'update' && !belongsToTwo) return change(existing, row)
      return { outcome: owner === undefined ? 'id_taken' : 'email_taken' }
    },
  }
}

/** E-mails that are equal without regard to case have the same key. They are ASCII. */
export function emailKey(email: string): string {
  return email.toLowerCase()
}

/** Gives out ids as the database does after `lastId`: the wanted one, otherwise the one after the highest. */
export function createIdCounter(lastId: number): (wanted: number | undefined) => number {
  let last = lastId
  return wanted => {
    const id = wanted ?? last + 1
    requireExactId(id)
    last = Math.max(last, id)
    return id
  }
}
