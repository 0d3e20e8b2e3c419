import { ServiceError } from '../errors.ts'
import { laterThan, showUser } from './stored-user.ts'
import type { Precondition, UserChange, UserRow } from './user-repository.ts'

/**
 * What an update makes of a user: `row` itself if no field differs, otherwise the user after it, whose `updatedAt` is later
 * than before whatever the clock says. `digest_changed` if the user no longer has the `judgedDigest`. `now` is in milliseconds
 * since the epoch.
 * Throws `version_mismatch` before that check, and `storage_damaged` if no later time is left.
 */
export function decideChange(
  row: UserRow,
  change: UserChange,
  { now, precondition }: { readonly now: number; readonly precondition?: Precondition },
): UserRow | 'digest_changed' {
  requireVersion(row, precondition)
  const { judgedDigest = row.passwordDigest } = change
  if (judgedDigest !== row.passwordDigest) return 'digest_changed'
  const { name = row.name, email = row.email, passwordDigest = row.passwordDigest } = change
  const isSame = name === row.name && email === row.email && passwordDigest === row.passwordDigest
  if (isSame) return row
  return { ...row, name, email, passwordDigest, updatedAt: laterThan(row.updatedAt, now) }
}

/** Throws `version_mismatch` unless the precondition allows the version of the user. */
export function requireVersion(row: UserRow, precondition: Precondition): void {
  if (precondition !== undefined && !precondition(showUser(row).version)) {
    throw new ServiceError('version_mismatch')
  }
}
