import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { ServiceError } from '../errors.ts'
import { repeat } from '../platform/follow.ts'
import { sleep } from '../platform/timers.ts'
import { decodeChangeCursor, encodeChangeCursor } from '../users/cursor.ts'
import {
  type ChangePage,
  type ChangePosition,
  timeOf,
  type UserChanges,
} from '../users/user-changes.ts'
import { createLease } from './delivery-lease.ts'
import { nextRetryMs } from './retry-steps.ts'
import { type StoredWebhook, shownUrl, type WebhookProgress, type WebhookStore } from './webhook.ts'
import { changedMessage, type Message, resetMessage, signedHeaders } from './webhook-message.ts'
import { createSender, type Receipt } from './webhook-sender.ts'

export interface RunnerOptions {
  readonly store: WebhookStore
  readonly changes: Pick<UserChanges, 'read'>
  /** Resolves once there may be a change after a position, or when `leaving` is aborted. */
  readonly untilNews: (after: ChangePosition, leaving: AbortSignal) => Promise<unknown>
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** From 0 to below 1. */
  readonly random?: () => number
  /** Whether the database is left alone for now, as long as there is no webhook. */
  readonly isIdle: () => boolean
}

/** The most changes in a request. */
const MAX_CHANGES = 100

/** A request ends before the lease does, with time to record it. */
const TIMEOUT_MS = 10_000
const NEEDED_MS = TIMEOUT_MS + 500

const POLL_MS = 1000

/** How often a runner that waits for a time looks at its clock. */
const LOOK_MS = 200

/** What was sent to a webhook, in requests. */
interface Deliveries {
  readonly webhook: string
  delivered: number
  failed: number
  /** When the oldest change that waits was made, in milliseconds since the epoch; `undefined` if none does. */
  pendingSince: number | undefined
}

export type WebhookRunner = ReturnType<typeof startWebhooks>

/**
 * Posts the changes of users to the webhooks of the database, for each one request at a time, while this process has the lease. It
 * follows webhooks that commands add, change and remove.
 */
export function startWebhooks(options: RunnerOptions) {
  const { store, log, isIdle } = options
  const holder = randomUUID()
  const lease = createLease({ ...options, holder })
  const followers = new Map<string, ReturnType<typeof followWebhook>>()
  /** Since the start, also of those that another process delivers to by now. */
  const deliveries = new Map<string, Deliveries>()
  let hasWebhooks = false
  let isStopping = false

  async function poll(): Promise<void> {
    if (isStopping || (isIdle() && !hasWebhooks)) return
    const hadLease = lease.remainingMs() > 0
    const webhooks = await store.list()
    hasWebhooks = webhooks.length > 0
    const enabled = webhooks.filter(({ disabled }) => disabled === undefined)
    if (enabled.length > 0) await lease.step()
    else await lease.release()
    if (isStopping) return
    const hasLease = lease.remainingMs() > 0
    // What was read before the lease was taken, or while a follower ended, may be out of date.
    const mine = hadLease && hasLease ? enabled : []
    const added = mine.filter(({ name }) => !followers.has(name))
    for (const [name, follower] of followers) {
      const found = mine.find(webhook => webhook.name === name)
      if (found?.url === follower.url && !follower.hasEnded()) follower.update(found)
      else {
        await follower.end()
        followers.delete(name)
      }
    }
    for (const webhook of isStopping ? [] : added) followers.set(webhook.name, follow(webhook))
    for (const [name, counts] of deliveries) {
      const found = webhooks.find(webhook => webhook.name === name)
      if (found === undefined) deliveries.delete(name)
      // Another process knows better. What is disabled stays behind.
      else if (found.disabled === undefined && !hasLease) counts.pendingSince = undefined
    }
    if (hasLease && !hadLease) await poll()
  }

  function follow(webhook: StoredWebhook) {
    const { name } = webhook
    const counts = deliveries.get(name) ?? {
      ...{ webhook: name, delivered: 0, failed: 0, pendingSince: undefined },
    }
    deliveries.set(name, counts)
    return followWebhook(webhook, { ...options, lease, holder, counts })
  }

  const polling = repeat({
    work: poll,
    everyMs: POLL_MS,
    onFailure: err => log.warn({ err }, 'cannot read webhooks'),
  })
  void polling.run()

  return {
    /** What this process has delivered, for metrics. */
    report: () =>
      Array.from(deliveries.values(), ({ pendingSince = options.now(), ...counts }) => ({
        ...counts,
        /** Since the oldest change that waits was made; 0 if none does. */
        behindSeconds: Math.max(0, options.now() - pendingSince) / 1000,
      })),

    /**
     * Sends no more, and waits up to `timeoutMs` for the requests that run. Resolves to whether they ended by themselves. Once
     * this resolves, the store is no longer used.
     */
    stop: async (timeoutMs: number): Promise<boolean> => {
      isStopping = true
      const ends = [...followers.values()].map(follower => follower.end(timeoutMs))
      const ended = await Promise.all(ends)
      followers.clear()
      await polling.close()
      await lease.release().catch(() => {})
      return ended.every(Boolean)
    },
  }
}

interface FollowerOptions extends RunnerOptions {
  readonly lease: ReturnType<typeof createLease>
  readonly holder: string
  readonly counts: Deliveries
}

/** What is to be sent, of a webhook as it was known then, and the progress once it is delivered. */
interface Next {
  readonly of: StoredWebhook
  readonly message: Message
  readonly delivered: Partial<WebhookProgress>
}

/** Delivers to one webhook until it is ended. */
function followWebhook(first: StoredWebhook, options: FollowerOptions) {
  const { store, changes, untilNews, log, now, monotonicNow, random, lease, holder, counts } =
    options
  const sender = createSender(first.url)
  const leaving = new AbortController()
  /** Ends the wait for changes. */
  let waking = new AbortController()
  const cutting = new AbortController()
  const who = { webhook: first.name, url: shownUrl(first.url) }
  let webhook = first
  /** By the monotonic clock. */
  let retryAt = untilRetry(first)
  /** What the cursor says, and where a page that had nothing to tell ended. */
  let position = positionOf(first)

  function untilRetry({ retryAt = 0 }: WebhookProgress): number {
    return monotonicNow() + Math.min(Math.max(0, retryAt - now()), nextRetryMs.max)
  }

  async function work(): Promise<void> {
    let isFailing = false
    while (!leaving.signal.aborted) {
      try {
        const next = await findNext()
        if (next !== undefined && (await isTime())) await deliver(next)
        isFailing = false
      } catch (err) {
        if (!isFailing && !leaving.signal.aborted)
          log.warn({ err, ...who }, 'webhook waits for the database')
        isFailing = true
        await pause(POLL_MS)
      }
    }
  }

  /** What comes next; `undefined` after a wait that brought nothing. */
  async function findNext(): Promise<Next | undefined> {
    const of = webhook
    const { resetAt } = of
    if (resetAt !== undefined) {
      counts.pendingSince = resetAt
      return { of, message: resetMessage(of, resetAt), delivered: { resetAt: undefined } }
    }
    const page = await readOrReset(of)
    if (page === undefined || of !== webhook) return undefined
    const { changes: found, next, hasMore } = page
    const [oldest] = found
    counts.pendingSince = oldest && Math.max(Date.parse(timeOf(oldest)), of.begunAt)
    if (oldest !== undefined) {
      const cursor = encodeChangeCursor(next)
      return { of, message: changedMessage(of, found), delivered: { cursor } }
    }
    position = next
    if (!hasMore) await untilNews(next, waking.signal)
    return undefined
  }

  /** The changes after the cursor; `undefined` once it is noted that the cursor can no longer be followed. */
  async function readOrReset(of: StoredWebhook): Promise<ChangePage | undefined> {
    try {
      if (position === 'lost') throw new ServiceError('cursor_expired')
      return await changes.read(position, MAX_CHANGES)
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'cursor_expired') throw error
      const resetAt = now()
      const begunAt = Math.max(resetAt, of.begunAt + 1)
      await record(of, { cursor: undefined, begunAt, resetAt })
      return undefined
    }
  }

  /** Waits until a request may begin. Resolves to whether it may at once: what was read before a wait may be old. */
  async function isTime(): Promise<boolean> {
    const of = webhook
    let hasWaited = false
    while (monotonicNow() < retryAt || lease.remainingMs() < NEEDED_MS) {
      hasWaited = true
      await pause(LOOK_MS)
      if (leaving.signal.aborted || webhook !== of) return false
    }
    return !hasWaited
  }

  async function deliver({ of, message, delivered }: Next): Promise<void> {
    const outcome = await post(message)
    if (cutting.signal.aborted) return
    if (typeof outcome === 'string' || outcome.status < 200 || outcome.status > 299) {
      counts.failed++
      await recordFailure(of, outcome)
      return
    }
    counts.delivered++
    const isRecorded = await record(of, { ...delivered, ...NO_FAILURE })
    if (isRecorded && of.failingSince !== undefined) log.info(who, 'webhook delivers again')
  }

  /** The answer, or why there is none. */
  async function post(message: Message): Promise<Receipt | string> {
    const headers = signedHeaders(webhook, message, now())
    try {
      const { body } = message
      return await sender.send({ body, headers, timeoutMs: TIMEOUT_MS, signal: cutting.signal })
    } catch (error) {
      return (error as Error).message
    }
  }

  async function recordFailure(of: StoredWebhook, outcome: Receipt | string): Promise<void> {
    const answer = typeof outcome === 'string' ? undefined : outcome
    const lastError = answer === undefined ? String(outcome) : `it answered ${answer.status}`
    const isGone = answer?.status === 410
    const { retryAfter } = answer ?? {}
    const waitMs = nextRetryMs(of.failures, { now: now(), retryAfter, random })
    const isRecorded = await record(of, {
      failures: of.failures + 1,
      failingSince: of.failingSince ?? now(),
      lastError,
      retryAt: now() + waitMs,
      disabled: isGone ? 'gone' : undefined,
    })
    if (!isRecorded) return
    retryAt = monotonicNow() + waitMs
    if (isGone) log.warn(who, 'webhook disabled: its receiver answered 410')
    else if (of.failingSince === undefined) log.warn({ ...who, reason: lastError }, 'webhook fails')
  }

  /** Changes nothing, and gives `false`, if a command has changed the webhook meanwhile, or another process has the lease. */
  async function record(of: StoredWebhook, changed: Partial<WebhookProgress>): Promise<boolean> {
    const progressed = { ...of, ...changed }
    const isRecorded = webhook === of && (await store.record(of, progressed, holder))
    // The next poll brings what others have changed.
    if (!isRecorded) await pause(POLL_MS)
    if (!isRecorded || webhook !== of) return false
    webhook = progressed
    if ('cursor' in changed) position = positionOf(progressed)
    if (progressed.disabled !== undefined) leaving.abort()
    return true
  }

  const pause = (ms: number) => sleep(ms, undefined, { signal: leaving.signal }).catch(() => {})
  const working = work().finally(sender.close)

  return {
    url: first.url,
    /** Whether it has disabled the webhook. */
    hasEnded: () => leaving.signal.aborted,
    /** Takes over what a command has changed. */
    update: (stored: StoredWebhook): void => {
      if (stored.revision === webhook.revision) return
      webhook = stored
      position = positionOf(stored)
      retryAt = untilRetry(stored)
      waking.abort()
      waking = new AbortController()
    },
    /** Begins no request, and cuts off after `timeoutMs` the one that runs. Resolves to whether it ended by itself. */
    end: async (timeoutMs = 0): Promise<boolean> => {
      leaving.abort()
      waking.abort()
      const ended = working.then(() => true)
      const isEnded = await Promise.race([ended, sleep(timeoutMs, false)])
      cutting.abort()
      await working
      return isEnded
    },
  }
}

const NO_FAILURE = {
  ...{ failures: 0, failingSince: undefined, lastError: undefined, retryAt: undefined },
}

/** `lost` for a cursor that no release has written. */
function positionOf({ cursor }: WebhookProgress): ChangePosition | 'lost' | undefined {
  return cursor === undefined ? undefined : (decodeChangeCursor(cursor) ?? 'lost')
}
