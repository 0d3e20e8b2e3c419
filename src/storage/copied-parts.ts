import type { StoredApiKey } from '../access/api-key.ts'
import type { Ban } from '../limits/ban-store.ts'
import type { ImportCheckpoint } from '../users/transfer/user-import-store.ts'
import type { UserJson } from '../users/user-repository.ts'
import { readWholeList } from '../users/whole-list.ts'
import type { StoredWebhook } from '../webhooks/webhook.ts'
import type { KeptCreate, SigningKey } from './create-copy-store.ts'
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
  keep(target: Storage, items: readonly T[]): Promise<void>
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
    const [refused] = outcomes.slice(-1).filter(outcome => outcome !== 'created')
    if (refused === undefined) return
    const user = nameOfUser(items[outcomes.length - 1] as CopiedUser)
    throw new UnusableDatabase(`it cannot hold ${user}: another user has its id or e-mail`)
  },
  nameOf: nameOfUser,
}

function nameOfUser([json]: CopiedUser): string {
  return `user ${JSON.parse(json).id}`
}

const CREATES: CopiedPart<KeptCreate> = {
  name: 'idempotency_keys',
  label: 'idempotency keys',
  async *read({ copies }) {
    for (let after = Buffer.alloc(0); ; ) {
      const creates = await copies.keptCreates(after)
      const last = creates.at(-1)
      if (last === undefined) return
      yield creates
      after = last.keyHash as Buffer<ArrayBuffer>
    }
  },
  keep: ({ copies }, creates) => copies.keepCreates(creates),
  nameOf: ({ userId }) => `an idempotency key of user ${userId}`,
}

const BANS: CopiedPart<Ban> = {
  name: 'bans',
  label: 'bans',
  read: ({ bans }) => bans.load(),
  keep: async ({ bans }, items) => {
    await Promise.all(items.map(ban => bans.save(ban)))
  },
  nameOf: ({ rule }) => `a ban of ${JSON.stringify(rule)}`,
  staysUntil: ({ endsAt }, time) => endsAt > time,
}

const API_KEYS: CopiedPart<StoredApiKey> = {
  name: 'api_keys',
  label: 'API keys',
  async *read({ apiKeys }) {
    yield await apiKeys.list()
  },
  keep: async ({ apiKeys }, keys) => {
    for (const key of keys) await apiKeys.create(key)
    const uses = keys.flatMap(({ hash, lastUsedAt }) =>
      lastUsedAt === undefined ? [] : [{ hash, usedAt: lastUsedAt }],
    )
    await apiKeys.recordUses(uses)
  },
  nameOf: ({ name }) => `the API key ${name}`,
}

const WEBHOOKS: CopiedPart<StoredWebhook> = {
  name: 'webhooks',
  label: 'webhooks',
  async *read({ webhooks }) {
    // Two databases must not both post.
    yield (await webhooks.list()).map(webhook => ({ ...webhook, disabled: 'copied' }))
  },
  keep: async ({ webhooks }, items) => {
    for (const webhook of items) await webhooks.create(webhook)
  },
  nameOf: ({ name }) => `the webhook ${name}`,
}

const SIGNING_KEYS: CopiedPart<SigningKey> = {
  label: 'signing keys',
  async *read({ copies }) {
    yield await copies.signingKeys()
  },
  keep: ({ copies }, keys) => copies.keepSigningKeys(keys),
  nameOf: ({ name }) => `the signing key ${name}`,
}

/** All that a copy has, in the order in which it is filled. What a database gets besides has its place here. */
export const COPIED_PARTS: readonly CopiedPart<unknown>[] = [
  USERS,
  CREATES,
  BANS,
  API_KEYS,
  WEBHOOKS,
  SIGNING_KEYS,
] as unknown as readonly CopiedPart<unknown>[]
