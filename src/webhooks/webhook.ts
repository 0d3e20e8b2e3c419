/** Why a webhook gets nothing until it is resumed: its receiver answered 410, or its database was made by `copy` or `restore`. */
export type Disabled = 'gone' | 'copied' | 'restored'

/** The most webhooks of a database. */
export const MAX_WEBHOOKS = 20

/** How long the previous secret signs too. */
export const ROTATION_MS = 24 * 3_600_000

/** How far a webhook is, and how its last requests went. Times are whole milliseconds since the epoch. */
export interface WebhookProgress {
  /**
   * The cursor after the last change that was delivered; `undefined` before the first one. Empty where the receiver must be told
   * to forget all users.
   */
  readonly cursor: string | undefined
  /** When it last began, or began again. Later than each time before, so that nothing is sent twice as the same message. */
  readonly begunAt: number
  /** When the cursor expired, until the receiver has been told. */
  readonly resetAt: number | undefined
  readonly disabled: Disabled | undefined
  /** Failures since the last success. */
  readonly failures: number
  readonly failingSince: number | undefined
  /** Of the last failure. It has no part of a body, and no query of the address. */
  readonly lastError: string | undefined
  readonly retryAt: number | undefined
}

/** A webhook as it is stored. */
export interface StoredWebhook extends WebhookProgress {
  /** Unique, and of the form of an API key's name. */
  readonly name: string
  readonly url: string
  /** 32 bytes, as they are: they sign. */
  readonly secret: Buffer
  /** Signs too, until `rotatedUntil`. */
  readonly previousSecret: Buffer | undefined
  readonly rotatedUntil: number | undefined
  /** Grows with each command, and begins with the time: a later webhook of the same name has another. What a runner knows of an older revision is out of date. */
  readonly revision: number
}

/** A lease at a moment: who has it (nobody if empty), and a number that grows with each renewal. */
export interface Lease {
  readonly holder: string
  readonly beat: number
}

/**
 * Keeps webhooks, and says which process delivers. Each call may cost a round trip, ends within seconds, and throws
 * `storage_unavailable` when the storage cannot be used now.
 */
export interface WebhookStore {
  /** All webhooks, by name. Cheap: it is called once a second. */
  list(): Promise<readonly StoredWebhook[]>
  /** Stores a webhook, unless its name is taken or there are `MAX_WEBHOOKS` already. */
  create(webhook: StoredWebhook): Promise<'created' | 'taken' | 'full'>
  /** Removes a webhook. Returns whether there was one of this name. */
  remove(name: string): Promise<boolean>
  /** Gives a new secret; the present one becomes the previous. Returns as `remove`. */
  rotate(name: string, secret: Buffer, rotatedUntil: number): Promise<boolean>
  /** Lets it begin again at a cursor. `begunAt` as in `WebhookProgress`; a later one stays. Returns as `remove`. */
  replay(name: string, from: Pick<WebhookProgress, 'begunAt' | 'cursor'>): Promise<boolean>
  /** Enables it, and lets it try at once. Since when it fails ends with a success. Returns as `remove`. */
  resume(name: string): Promise<boolean>
  /**
   * Stores the progress of a webhook. Returns `false`, without a change, if it has another revision by now or `holder` has lost
   * the lease.
   */
  record(
    webhook: Pick<StoredWebhook, 'name' | 'revision'>,
    progress: WebhookProgress,
    holder: string,
  ): Promise<boolean>
  /** The lease of those who deliver. */
  lease(): Promise<Lease>
  /** Takes the lease if it still is what was `seen`. Returns whether it did. */
  takeLease(holder: string, seen: Lease): Promise<boolean>
  /** Returns whether the holder still had it. */
  renewLease(holder: string): Promise<boolean>
  /** Lets another process take it at once. */
  releaseLease(holder: string): Promise<void>
}

/** The address as it is shown: without credentials, query and fragment. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url)
  return `${origin}${pathname}`
}
