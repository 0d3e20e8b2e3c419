import { canonicalOf } from '../passwords/parse-digest.ts'
import { decideChange, requireExactId } from '../stored-user.ts'
import type { UserRow } from '../user-repository.ts'
import { emailKey } from '../user-schemas.ts'
import type { ConflictPolicy, ImportedUser, ImportOutcome } from './user-import-store.ts'

/** What a row does. */
export interface ImportDecision {
  readonly outcome: ImportOutcome
  /** The user after it, if the row created or changed one. */
  readonly after?: UserRow
}

/** Decides about the rows of a batch in their order. Each sees what those before it did. `takeId` is called for a new user. */
export function createImportDecisions(options: {
  /** The users with the e-mail or the id of a row. */
  readonly existing: readonly UserRow[]
  readonly onConflict: ConflictPolicy
  /** Milliseconds since the epoch. */
  readonly now: () => number
}): (row: ImportedUser, takeId: () => number) => ImportDecision {
  const { existing, onConflict, now } = options
  const time = new Date(now()).toISOString()
  const byId = new Map<number, UserRow>()
  const byEmail = new Map<string, UserRow>()
  for (const user of existing) put(user)

  function put(user: UserRow): void {
    byId.set(user.id, user)
    byEmail.set(emailKey(user.email), user)
  }

  function create(row: ImportedUser, id: number): ImportDecision {
    const { name, email, passwordDigest = null } = row
    const { createdAt = row.updatedAt ?? time, updatedAt = createdAt } = row
    const after = { id, name, email, passwordDigest, createdAt, updatedAt }
    put(after)
    return { outcome: 'created', after }
  }

  function update(before: UserRow, { name, email, ...row }: ImportedUser): ImportDecision {
    const { passwordDigest: stored } = before
    const isKept = stored !== null && row.passwordDigest === canonicalOf(stored)
    const passwordDigest = isKept ? stored : row.passwordDigest
    // Nothing was compared with a digest before, so the digest cannot be another one.
    const after = decideChange(before, { name, email, passwordDigest }, { now: now() }) as UserRow
    if (after === before) return { outcome: 'unchanged' }
    byEmail.delete(emailKey(before.email))
    put(after)
    return { outcome: 'updated', after }
  }

  return (row, takeId) => {
    const owner = byEmail.get(emailKey(row.email))
    const namesake = row.id === undefined ? undefined : byId.get(row.id)
    const found = owner ?? namesake
    if (found === undefined) return create(row, takeId())
    if (onConflict === 'skip') return { outcome: 'skipped' }
    const belongsToTwo = namesake !== undefined && namesake !== found
    if (onConflict === 'update' && !belongsToTwo) return update(found, row)
    return { outcome: owner === undefined ? 'id_taken' : 'email_taken' }
  }
}

/** Gives out ids as a database does after `lastId`: the wanted one, otherwise the one after the highest. */
export function createIdCounter(lastId: number): (wanted: number | undefined) => number {
  let last = lastId
  return wanted => {
    const id = wanted ?? last + 1
    requireExactId(id)
    last = Math.max(last, id)
    return id
  }
}
