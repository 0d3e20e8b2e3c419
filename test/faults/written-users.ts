import type { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import {
  integrityProblems,
  type KeyRow,
  keyRows,
  representationOf,
  said,
  takeKey,
  type UserRow,
  userRows,
} from './user-rows.ts'

/** A state that a write gave a user, and the time of its response. */
export interface UserVersion {
  /** `undefined` if the user was deleted. */
  readonly fields: { readonly name: string; readonly email: string } | undefined
  /** The JSON in the response. */
  body?: string
  /** By `process.hrtime`. */
  acknowledgedAt?: bigint
}

/** A user that one client writes, one write at a time. */
export interface WrittenUser {
  id?: number
  readonly idempotencyKey: string | undefined
  /** JSON of the body of its create. */
  readonly createBody: string
  /** The JSON in the response to its create. */
  firstAnswer?: string
  /** All its states in order, from its absence or its state at the first start of the service. */
  readonly versions: UserVersion[]
}

/** The users in a database, and all differences from what it must contain. */
export interface Found {
  readonly problems: string[]
  /** The version of each user that was found, and its row if it has one. */
  readonly versions: ReadonlyMap<WrittenUser, { index: number; row: UserRow | undefined }>
}

interface FindOptions {
  /** All writes acknowledged before this time must be there; if left out, all acknowledged writes. */
  readonly before?: bigint
  /** Users up to this id are not among the written ones. */
  readonly afterId?: number
}

/** Looks for users in a database with the newest schema. */
export function findUsers(
  database: Database,
  users: readonly WrittenUser[],
  { before, afterId = 0 }: FindOptions = {},
): Found {
  const problems: string[] = []
  const rows = userRows(database, afterId)
  const keys = keyRows(database)
  const byId = new Map(rows.map(row => [row.id, row]))
  const byEmail = new Map(rows.map(row => [row.email, row]))
  const versions = new Map<WrittenUser, { index: number; row: UserRow | undefined }>()
  let changes = 0
  for (const user of users) {
    const row = user.id === undefined ? byEmail.get(firstEmail(user)) : byId.get(user.id)
    if (row !== undefined) byId.delete(row.id)
    const least = acknowledgedVersion(user, before)
    const index = user.versions.findIndex((version, at) => at >= least && isShown(version, row))
    versions.set(user, { index, row })
    changes += index
    if (index < 0) {
      problems.push(`${said(row)} is there in place of ${said(user.versions[least])}`)
    } else if (user.idempotencyKey !== undefined) {
      const problem = keyProblem(user, { index, row }, takeKey(keys, user.idempotencyKey))
      if (problem !== undefined) problems.push(problem)
    }
  }
  for (const row of byId.values()) problems.push(`no client wrote ${said(row)}`)
  for (const key of keys.values()) problems.push(`no client used the key of ${said(key)}`)
  return { problems: [...problems, ...integrityProblems(database, changes)].slice(0, 20), versions }
}

function acknowledgedVersion({ versions }: WrittenUser, before: bigint | undefined): number {
  return versions.findLastIndex(
    ({ acknowledgedAt: at }) => at !== undefined && (before === undefined || at < before),
  )
}

function isShown({ fields, body }: UserVersion, row: UserRow | undefined): boolean {
  if (fields === undefined || row === undefined) return fields === row
  const { name, email } = fields
  const isSame = row.name === name && row.nameLower === name.toLowerCase() && row.email === email
  return isSame && (body === undefined || body === representationOf(row))
}

function keyProblem(
  { firstAnswer, idempotencyKey, versions }: WrittenUser,
  { index, row }: { index: number; row: UserRow | undefined },
  key: KeyRow | undefined,
): string | undefined {
  const answer = firstAnswer ?? (index === 1 && row ? representationOf(row) : key?.json)
  const isUsed = key?.fingerprint === null && key.json === null
  // For a missing user, only the key shows whether it was created and deleted between two checks.
  const wasDeleted = versions.some(({ fields }, at) => at > 0 && fields === undefined)
  const isRight =
    index === 0
      ? key === undefined || (wasDeleted && isUsed)
      : row === undefined
        ? isUsed
        : key !== undefined && key.userId === row.id && key.json === answer
  return isRight ? undefined : `${said(key)} is kept of ${idempotencyKey} for ${said(row)}`
}

function firstEmail({ versions }: WrittenUser): string {
  return versions[1]?.fields?.email ?? ''
}
