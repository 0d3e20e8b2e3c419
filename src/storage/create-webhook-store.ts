import {
  MAX_WEBHOOKS,
  type StoredWebhook,
  type WebhookProgress,
  type WebhookStore,
} from '../webhooks/webhook.ts'
import { ask, type Program } from './programs.ts'
import type { SharedStatements } from './storage.ts'

/** The columns of `WebhookProgress`, by its names. */
const PROGRESS_COLUMNS: Readonly<Record<keyof WebhookProgress, string>> = {
  cursor: 'cursor',
  begunAt: 'begun_at',
  resetAt: 'reset_at',
  disabled: 'disabled',
  failures: 'failures',
  failingSince: 'failing_since',
  lastError: 'last_error',
  retryAt: 'retry_at',
}

const COLUMNS: Readonly<Record<keyof StoredWebhook, string>> = {
  name: 'name',
  url: 'url',
  secret: 'secret',
  previousSecret: 'previous_secret',
  rotatedUntil: 'rotated_until',
  revision: 'revision',
  ...PROGRESS_COLUMNS,
}

/** The columns of the table `webhooks`; the first one is its key. */
export const WEBHOOK_COLUMNS = Object.values(COLUMNS)

const SELECT_ALL = `SELECT ${WEBHOOK_COLUMNS} FROM webhooks ORDER BY name`

/** Lets one transaction after another count. */
const LOCK = `UPDATE webhook_lease SET beat = beat`

const COUNT = `SELECT count(*) FROM webhooks`

const INSERT_UNLESS_TAKEN = `
  INSERT INTO webhooks (${WEBHOOK_COLUMNS}) VALUES (${WEBHOOK_COLUMNS.map((_, at) => `$${at + 1}`)})
  ON CONFLICT (name) DO NOTHING RETURNING name`

const DELETE_ONE = `DELETE FROM webhooks WHERE name = $1 RETURNING name`

const ROTATE = `
  UPDATE webhooks SET previous_secret = secret, secret = $2, rotated_until = $3, revision = revision + 1
  WHERE name = $1 RETURNING name`

const NO_FAILURE = `failures = 0, failing_since = NULL, last_error = NULL, retry_at = NULL`

const REPLAY = `
  UPDATE webhooks SET begun_at = CASE WHEN begun_at < $2 THEN $2 ELSE begun_at + 1 END, cursor = $3,
    ${NO_FAILURE}, revision = revision + 1
  WHERE name = $1 RETURNING name`

const RESUME = `
  UPDATE webhooks SET disabled = NULL, failures = 0, retry_at = NULL, revision = revision + 1
  WHERE name = $1 RETURNING name`

const RECORD = `
  UPDATE webhooks SET ${Object.values(PROGRESS_COLUMNS).map((name, at) => `${name} = $${at + 4}`)}
  WHERE name = $1 AND revision = $2 AND EXISTS (SELECT 1 FROM webhook_lease WHERE holder = $3)
  RETURNING name`

const SELECT_LEASE = `SELECT holder, beat FROM webhook_lease`

const TAKE_LEASE = `
  UPDATE webhook_lease SET holder = $1, beat = beat + 1 WHERE holder = $2 AND beat = $3 RETURNING beat`

const RENEW_LEASE = `UPDATE webhook_lease SET beat = beat + 1 WHERE holder = $1 RETURNING beat`

const RELEASE_LEASE = `UPDATE webhook_lease SET holder = '' WHERE holder = $1`

/** Webhooks in the tables `webhooks` and `webhook_lease` of either engine. */
export function createWebhookStore({ read, write, transaction }: SharedStatements): WebhookStore {
  const changesOne = async (sql: string, values: readonly unknown[]) =>
    (await write(sql, values)).length > 0

  function* create(webhook: StoredWebhook): Program<'created' | 'taken' | 'full'> {
    yield* ask(LOCK)
    const [[count] = [0]] = yield* ask<[number]>(COUNT)
    if (count >= MAX_WEBHOOKS) return 'full'
    const rows = yield* ask(INSERT_UNLESS_TAKEN, valuesOf(webhook, COLUMNS))
    return rows.length === 1 ? 'created' : 'taken'
  }

  return {
    list: async () => (await read(SELECT_ALL)).map(toWebhook),
    create: webhook => transaction(() => create(webhook)),
    remove: name => changesOne(DELETE_ONE, [name]),
    rotate: (name, secret, rotatedUntil) => changesOne(ROTATE, [name, secret, rotatedUntil]),
    replay: (name, { begunAt, cursor }) => changesOne(REPLAY, [name, begunAt, cursor ?? null]),
    resume: name => changesOne(RESUME, [name]),
    record: ({ name, revision }, progress, holder) =>
      changesOne(RECORD, [name, revision, holder, ...valuesOf(progress, PROGRESS_COLUMNS)]),
    lease: async () => {
      const [[holder, beat] = ['', 0]] = await read<[string, number]>(SELECT_LEASE)
      return { holder, beat }
    },
    takeLease: (holder, seen) => changesOne(TAKE_LEASE, [holder, seen.holder, seen.beat]),
    renewLease: holder => changesOne(RENEW_LEASE, [holder]),
    releaseLease: async holder => {
      await write(RELEASE_LEASE, [holder])
    },
  }
}

function valuesOf<T extends object>(
  item: T,
  columns: Readonly<Record<keyof T, string>>,
): unknown[] {
  return Object.keys(columns).map(name => item[name as keyof T] ?? null)
}

function toWebhook(row: readonly unknown[]): StoredWebhook {
  const fields = Object.keys(COLUMNS).map((name, at) => [name, row[at] ?? undefined])
  return Object.fromEntries(fields)
}
