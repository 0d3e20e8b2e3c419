import type { Ban } from '../limits/ban-store.ts'
import { idOf } from '../users/stored-user.ts'
import type { ImportCheckpoint } from '../users/transfer/user-import-store.ts'
import { readWholeList } from '../users/user-lists.ts'
import type { UserJson } from '../users/user-repository.ts'
import type { CopiedRow, CopiedTable } from './create-copy-store.ts'
import { WEBHOOK_COLUMNS } from './create-webhook-store.ts'
import type { Storage } from './storage.ts'
import { UnusableDatabase } from './unusable-database.ts'

/** One kind of what a database has. */
export interface CopiedPart<T> {
  /** For people. */
  readonly label: string
  /** Some at a time. */
  read(source: Storage): AsyncIterable<readonly T[]>
  keep(target: Storage, items: readonly T[]): Promise<unknown>
  /** Names one in an error. */
  nameOf?(item: T): string
  /** Whether it will still be there at a time, in milliseconds since the epoch. */
  staysUntil?(item: T, time: number): boolean
}

type CopiedUser = readonly [json: UserJson, digest: string | null]

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
    const [json] = items[outcomes.length - 1] as CopiedUser
    const why = `it cannot hold user ${idOf(json)}: another user, perhaps of another copy into it, has its id or e-mail`
    throw new UnusableDatabase(why)
  },
  nameOf: ([json]) => `user ${idOf(json)}`,
}

const BANS: CopiedPart<Ban> = {
  label: 'bans',
  read: ({ bans }) => bans.load(),
  keep: ({ bans }, items) => Promise.all(items.map(ban => bans.save(ban))),
  staysUntil: ({ endsAt }, time) => endsAt > time,
}

/** A table whose rows are copied as they are. */
function tablePart(label: string, table: CopiedTable): CopiedPart<CopiedRow> {
  return {
    label,
    read: ({ copies }) => copies.rows(table),
    keep: ({ copies }, rows) => copies.keepRows(table, rows),
  }
}

/** All that a copy has, by the names for programs, in the order in which it is filled. What a database gets besides has its place here. */
export const COPIED_PARTS: Readonly<Record<string, CopiedPart<unknown>>> = {
  users: USERS,
  idempotency_keys: tablePart('idempotency keys', {
    name: 'idempotency_keys',
    columns: ['key_hash', 'user_id', 'fingerprint', 'user_json', 'expires_at'],
  }),
  bans: BANS,
  api_keys: tablePart('API keys', {
    name: 'api_keys',
    columns: ['name', 'key_hash', 'scopes', 'created_at', 'expires_at', 'last_used_at'],
  }),
  webhooks: tablePart('webhooks', {
    name: 'webhooks',
    columns: WEBHOOK_COLUMNS,
    // Two databases must not both post, and the receiver may know users that the copy does not have.
    replaced: { disabled: `'copied'`, cursor: `''` },
  }),
  signing_keys: tablePart('signing keys', { name: 'signing_keys', columns: ['name', 'key'] }),
}
