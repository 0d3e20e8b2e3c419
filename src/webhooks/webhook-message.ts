import { createHash, createHmac } from 'node:crypto'
import { changeJson, timeOf, type UserChange } from '../users/user-changes.ts'
import type { StoredWebhook } from './webhook.ts'

/** What one request carries. */
export interface Message {
  /** The same for the same content, another for other content. */
  readonly id: string
  readonly body: string
}

type Sender = Pick<StoredWebhook, 'name' | 'begunAt'>

/** The message with 1 to 100 changes. Its time is that of the newest of them. */
export function changedMessage(webhook: Sender, changes: readonly UserChange[]): Message {
  const timestamp = changes.map(timeOf).reduce((one, other) => (one > other ? one : other))
  const data = changes.map(changeJson).join(',')
  return toMessage(webhook, `{"type":"users.changed","timestamp":"${timestamp}","data":[${data}]}`)
}

/** Tells the receiver to forget all users, because the cursor has expired. */
export function resetMessage(webhook: Sender, resetAt: number): Message {
  return emptyMessage(webhook, 'users.reset', resetAt)
}

/** Changes nothing at the receiver. */
export function testMessage(webhook: Sender, now: number): Message {
  return emptyMessage(webhook, 'test', now)
}

function emptyMessage(webhook: Sender, type: string, at: number): Message {
  const timestamp = new Date(at).toISOString()
  return toMessage(webhook, `{"type":"${type}","timestamp":"${timestamp}","data":[]}`)
}

/** Its id is a hash of all that makes it another message: a crash forgets none, and nothing needs to be stored. */
function toMessage({ name, begunAt }: Sender, body: string): Message {
  const hash = createHash('sha256').update(`${name}\n${begunAt}\n${body}`).digest('base64url')
  return { id: `msg_${hash.slice(0, 32)}`, body }
}

const SECRET_PREFIX = 'whsec_'

/** A secret as receivers are given it. */
export function secretText(secret: Buffer): string {
  return SECRET_PREFIX + secret.toString('base64')
}

type Signer = Pick<StoredWebhook, 'secret' | 'previousSecret' | 'rotatedUntil'>

/** The headers of a try, as Standard Webhooks 1.0.0 say. `nowMs` is its time. */
export function signedHeaders(
  { secret, previousSecret, rotatedUntil = 0 }: Signer,
  { id, body }: Message,
  nowMs: number,
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const secrets = [secret, ...(previousSecret && nowMs < rotatedUntil ? [previousSecret] : [])]
  const sign = (key: Buffer) =>
    `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map(sign).join(' '),
  }
}
