import {
  type Disabled,
  MAX_WEBHOOKS,
  type StoredWebhook,
  type WebhookProgress,
  type WebhookStore,
} from '../webhooks/webhook.ts'
import { ask, type Program } from './programs.ts'
import type { SharedStatements } from './storage.ts'

const PROGRESS = `cursor, begun_at, reset_at, disabled, failures, failing_since, last_error, retry_at`

const SELECT_ALL = `
  SELECT name, url, secret, previous_secret, rotated_until, revision, ${PROGRESS} FROM webhooks ORDER BY name`

/** Lets one transaction after another count. */
const LOCK = `UPDATE webhook_lease SET beat = beat`

const COUNT = `SELECT count(*) FROM webhooks`

const INSERT_UNLESS_TAKEN = `
  INSERT INTO webhooks (name, url, secret, previous_secret, rotated_until, revision, ${PROGRESS})
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
  ON CONFLICT (name) DO NOTHING RETURNING name`

const DELETE_ONE = `DELETE FROM webhooks WHERE name = $1 RETURNING name`

const ROTATE = `
  UPDATE webhooks SET previous_secret = secret, secret = $2, rotated_until = $3, revision = revision + 1
  WHERE name = $1 RETURNING name`

const NO_FAILURE = `failures = 0, failing_since = NULL, last_error = NULL, retry_at = NULL`

const REPLAY = `
  UPDATE webhooks SET begun_at = CASE WHEN begun_at < $2 THEN $2 ELSE begun_at + 1 END, cursor = NULL,
    ${NO_FAILURE}, revision = revision + 1
  WHERE name = $1 RETURNING name`

const RESUME = `
  UPDATE webhooks SET disabled = NULL, ${NO_FAILURE}, revision = revision + 1 WHERE name = $1 RETURNING name`

const RECORD = `
  UPDATE webhooks SET cursor = $4, begun_at = $5, reset_at = $6, disabled = $7, failures = $8, failing_since = $9,
    last_error = $10, retry_at = $11
  WHERE name = $1 AND revision = $2 AND EXISTS (SELECT 1 FROM webhook_lease WHERE holder = $3)
  RETURNING name`

const SELECT_LEASE = `SELECT holder, beat FROM webhook_lease`

const TAKE_LEASE = `
  UPDATE webhook_lease SET holder = $1, beat = beat + 1 WHERE holder = $2 AND beat = $3 RETURNING beat`

const RENEW_LEASE = `UPDATE webhook_lease SET beat = beat + 1 WHERE holder = $1 RETURNING beat`

const RELEASE_LEASE = `UPDATE webhook_lease SET holder = '' WHERE holder = $1`

type WebhookRow = [
  name: string,
  url: string,
  secret: Buffer,
  previousSecret: Buffer | null,
  rotatedUntil: number | null,
  revision: number,
  cursor: string | null,
  begunAt: number,
  resetAt: number | null,
  disabled: Disabled | null,
  failures: number,
  failingSince: number | null,
  lastError: string | null,
  retryAt: number | null,
]

/** Webhooks in the tables `webhooks` and `webhook_lease` of either engine. */
export function createWebhookStore({ read, write, transaction }: SharedStatements): WebhookStore {
  const changesOne = async (sql: string, values: readonly unknown[]) =>
    (await write(sql, values)).length > 0

  function* create(webhook: StoredWebhook): Program<'created' | 'taken' | 'full'> {
    yield* ask(LOCK)
    const [[count] = [0]] = yield* ask<[number]>(COUNT)
    if (count >= MAX_WEBHOOKS) return 'full'
    const { name, url, secret, previousSecret, rotatedUntil, revision } = webhook
    const values = [name, url, secret, previousSecret ?? null, rotatedUntil ?? null, revision]
    const rows = yield* ask(INSERT_UNLESS_TAKEN, [...values, ...progressValues(webhook)])
    return rows.length === 1 ? 'created' : 'taken'
  }

  return {
    list: async () => (await read<WebhookRow>(SELECT_ALL)).map(toWebhook),
    create: webhook => transaction(() => create(webhook)),
    remove: name => changesOne(DELETE_ONE, [name]),
    rotate: (name, secret, rotatedUntil) => changesOne(ROTATE, [name, secret, rotatedUntil]),
    replay: (name, begunAt) => changesOne(REPLAY, [name, begunAt]),
    resume: name => changesOne(RESUME, [name]),
    record: ({ name, revision }, progress, holder) =>
      changesOne(RECORD, [name, revision, holder, ...progressValues(progress)]),
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

function progressValues(progress: WebhookProgress): unknown[] {
  const { cursor, begunAt, resetAt, disabled, failures, failingSince, lastError, retryAt } =
    progress
  const values = [cursor, begunAt, resetAt, disabled, failures, failingSince, lastError, retryAt]
  return values.map(value => value ?? null)
}

function toWebhook(row: WebhookRow): StoredWebhook {
  const [name, url, secret, previousSecret, rotatedUntil, revision, ...progress] = row
  const [cursor, begunAt, resetAt, disabled, failures, failingSince, lastError, retryAt] = progress
  return {
    ...{ name, url, secret, revision, begunAt, failures },
    previousSecret: previousSecret ?? undefined,
    rotatedUntil: rotatedUntil ?? undefined,
    cursor: cursor ?? undefined,
    resetAt: resetAt ?? undefined,
    disabled: disabled ?? undefined,
    failingSince: failingSince ?? undefined,
    lastError: lastError ?? undefined,
    retryAt: retryAt ?? undefined,
  }
}
