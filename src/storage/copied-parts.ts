import type { Ban } from '../limits/ban-store.ts'
import type { ImportCheckpoint } from '../users/transfer/user-import-store.ts'
import type { UserJson } from '../users/user-repository.ts'
import { readWholeList } from '../users/whole-list.ts'
import type { CopiedRow, CopiedTable } from './create-copy-store.ts'
import { WEBHOOK_COLUMNS } from './create-webhook-store.ts'
import type { Storage } from './storage.ts'
import { UnusableDatabase } from './unusable-database.ts'

/** One kind of what a database has. */
export interface CopiedPart<T> {
  /** For programs. Undefined for what is no result of a copy. */
  readonly name?: string
  /** For people. */
  readonly label: string
  /** Some at a time. */
  read(source: Storage): AsyncIterable<readonly T[]>
  keep(target: Storage, items: readonly T[]): Promise<unknown>
  /** Names one in an error. */
  nameOf(item: T): string
  /** Whether it will still be there at a time, in milliseconds since the epoch. */
  staysUntil?(item: T, time: number): boolean
}

/** A user as JSON, and its digest. */
export type CopiedUser = readonly [json: UserJson, digest: string | null]

/** The import that fills a copy. */
const CHECKPOINT: ImportCheckpoint = {
  source: 'copy',
  records: 0,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: { created: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 },
  isFinished: false,
}

export const USERS: CopiedPart<CopiedUser> = {
  name: 'users',
  label: 'users',
  async *read({ users }) {
    const all = { filters: {}, words: [], withDigests: true }
    for await (const { lines, digests } of readWholeList(users, all)) {
      const jsons = lines.split('\n').slice(0, -1)
      yield jsons.map((json, at): CopiedUser => [json, digests[at] ?? null])
    }
  },
  keep: async ({ imports }, items) => {
    const users = items.map(([json, passwordDigest]) => {
      const { created_at: createdAt, updated_at: updatedAt, ...user } = JSON.parse(json)
      return { ...user, passwordDigest, createdAt, updatedAt }
    })
    const checkpointAfter = () => CHECKPOINT
    const outcomes = await imports.write({ users, onConflict: 'fail', checkpointAfter })
    if (outcomes.at(-1) === 'created') return
    const user = nameOfUser(items[outcomes.length - 1] as CopiedUser)
    throw new UnusableDatabase(`it cannot hold ${user}: another user has its id or e-mail`)
  },
  nameOf: nameOfUser,
}

function nameOfUser([json]: CopiedUser): string {
  return `user ${JSON.parse(json).id}`
}

const BANS: CopiedPart<Ban> = {
  name: 'bans',
  label: 'bans',
  read: ({ bans }) => bans.load(),
  keep: ({ bans }, items) => Promise.all(items.map(ban => bans.save(ban))),
  nameOf: ({ rule }) => `a ban of ${JSON.stringify(rule)}`,
  staysUntil: ({ endsAt }, time) => endsAt > time,
}

/** A table whose rows are copied as they are. */
function tablePart(
  table: CopiedTable,
  names: Pick<CopiedPart<CopiedRow>, 'name' | 'label' | 'nameOf'>,
): CopiedPart<CopiedRow> {
  return {
    ...names,
    read: ({ copies }) => copies.rows(table),
    keep: ({ copies }, rows) => copies.keepRows(table, rows),
  }
}

const CREATES = tablePart(
  {
    name: 'idempotency_keys',
    columns: ['key_hash', 'user_id', 'fingerprint', 'user_version', 'user_json', 'expires_at'],
  },
  {
    name: 'idempotency_keys',
    label: 'idempotency keys',
    nameOf: ([, userId]) => `an idempotency key of user ${userId}`,
  },
)

const API_KEYS = tablePart(
  {
    name: 'api_keys',
    columns: ['name', 'key_hash', 'scopes', 'created_at', 'expires_at', 'last_used_at'],
  },
  { name: 'api_keys', label: 'API keys', nameOf: ([name]) => `the API key ${name}` },
)

const WEBHOOKS = tablePart(
  {
    name: 'webhooks',
    columns: WEBHOOK_COLUMNS,
    // Two databases must not both post, and the receiver may know users that the copy does not have.
    replaced: { disabled: `'copied'`, cursor: `''` },
  },
  { name: 'webhooks', label: 'webhooks', nameOf: ([name]) => `the webhook ${name}` },
)

const SIGNING_KEYS = tablePart(
  { name: 'signing_keys', columns: ['name', 'key'] },
  { label: 'signing keys', nameOf: ([name]) => `the signing key ${name}` },
)

/** All that a copy has, in the order in which it is filled. What a database gets besides has its place here. */
export const COPIED_PARTS: readonly CopiedPart<unknown>[] = [
  USERS,
  CREATES,
  BANS,
  API_KEYS,
  WEBHOOKS,
  SIGNING_KEYS,
] as unknown as readonly CopiedPart<unknown>[]
