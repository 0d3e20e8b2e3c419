import type { Logger } from 'pino'
import { ServiceError } from '../errors.ts'
import { sleep } from '../platform/timers.ts'
import { decodeChangeCursor, encodeChangeCursor } from '../users/cursor.ts'
import {
  type ChangePage,
  type ChangePosition,
  timeOf,
  type UserChanges,
} from '../users/user-changes.ts'
import { LONGEST_RETRY_MS, nextRetryMs } from './retry-steps.ts'
import { type StoredWebhook, shownUrl, type WebhookProgress, type WebhookStore } from './webhook.ts'
import { changedMessage, type Message, resetMessage, signedHeaders } from './webhook-message.ts'
import { createSender, type Receipt } from './webhook-sender.ts'

/** What was sent to a webhook, in requests. */
export interface Deliveries {
  readonly webhook: string
  delivered: number
  failed: number
  /** When the oldest change that waits was made, in milliseconds since the epoch; `undefined` if none does. */
  pendingSince: number | undefined
}

export interface FollowerOptions {
  readonly store: WebhookStore
  readonly changes: Pick<UserChanges, 'read'>
  /** Resolves once there may be a change after a position, or when `leaving` is aborted. */
  readonly untilNews: (after: ChangePosition, leaving: AbortSignal) => Promise<unknown>
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** Waits for some milliseconds, or until it is aborted. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<unknown>
  /** How long this process may still deliver; 0 or less if it may not. */
  readonly leaseMs: () => number
  /** The name under which this process has the lease. */
  readonly holder: string
  readonly counts: Deliveries
  /** Until when all followers of this process leave its thread to others, by the monotonic clock. */
  readonly rest: { until: number }
}

/** The most changes in a request. */
const MAX_CHANGES = 100

/** A request ends before the lease does, with time to record it. */
const TIMEOUT_MS = 10_000
const NEEDED_MS = TIMEOUT_MS + 500

/** After a request that was not full: changes of this time come together, so steady writes cost a few requests a second. */
const GATHER_MS = 200

/** How long it waits for the database, or for the poll that brings what a command has changed. */
const POLL_MS = 1000

/** How often a follower that waits for a time looks at its clock. */
const LOOK_MS = 200

/** What is to be sent, of a webhook as it was known then, and the progress once it is delivered. */
interface Next {
  readonly of: StoredWebhook
  readonly message: Message
  readonly delivered: Partial<WebhookProgress>
  /** Whether it has as many changes as a request may have. */
  readonly isFull: boolean
}

type Outcome = Receipt & { readonly problem?: string }

/** Delivers to one webhook until it is ended: all that changes of users, in order, one request at a time. */
export function followWebhook(first: StoredWebhook, options: FollowerOptions) {
  const { store, changes, untilNews, log, now, monotonicNow, leaseMs, holder, counts } = options
  const { rest, wait = sleepUntil } = options
  const sender = createSender(first.url)
  const leaving = new AbortController()
  /** Ends the wait for changes. */
  let waking = new AbortController()
  let isCutOff = false
  const who = { webhook: first.name, url: shownUrl(first.url) }
  let webhook = first
  /** By the monotonic clock. */
  let retryAt = untilRetry(first)
  /** What the cursor says, and where a page that had nothing to tell ended. */
  let position = positionOf(first)

  function untilRetry({ retryAt = 0 }: WebhookProgress): number {
    return monotonicNow() + Math.min(Math.max(0, retryAt - now()), LONGEST_RETRY_MS)
  }

  async function work(): Promise<void> {
    let isFailing = false
    while (!leaving.signal.aborted) {
      try {
        await step()
        isFailing = false
      } catch (err) {
        if (!isFailing && !leaving.signal.aborted)
          log.warn({ err, ...who }, 'webhook waits for the database')
        isFailing = true
        await pause(POLL_MS)
      }
    }
  }

  /**
   * Delivers what comes next. After a full request, more are to be expected, so the thread is left to others for as long as this
   * took it: all the time but that of the receiver.
   */
  async function step(): Promise<void> {
    const restMs = rest.until - monotonicNow()
    if (restMs > 0) await pause(restMs)
    const beganAt = monotonicNow()
    const next = await findNext()
    if (next === undefined || !(await isTime())) return
    const sentAt = monotonicNow()
    const outcome = await post(next.message)
    const postingMs = monotonicNow() - sentAt
    if (!isCutOff) await recordOutcome(next, outcome)
    const endedAt = monotonicNow()
    // At most a second, because a process that was frozen did not work meanwhile.
    const ownMs = Math.min(endedAt - beganAt - postingMs, POLL_MS)
    if (next.isFull) rest.until = Math.max(rest.until, endedAt) + ownMs
    else await pause(GATHER_MS)
  }

  /** What comes next; `undefined` after a wait that brought nothing. */
  async function findNext(): Promise<Next | undefined> {
    const of = webhook
    const { resetAt } = of
    if (resetAt !== undefined) {
      counts.pendingSince = resetAt
      const delivered = { resetAt: undefined }
      return { of, message: resetMessage(of, resetAt), delivered, isFull: false }
    }
    const page = await readOrReset(of)
    if (page === undefined || of !== webhook) return undefined
    const { changes: found, next, hasMore } = page
    const [oldest] = found
    counts.pendingSince = oldest && Math.max(Date.parse(timeOf(oldest)), of.begunAt)
    if (oldest !== undefined) {
      const cursor = encodeChangeCursor(next)
      const isFull = found.length === MAX_CHANGES
      return { of, message: changedMessage(of, found), delivered: { cursor }, isFull }
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
    while (monotonicNow() < retryAt || leaseMs() < NEEDED_MS) {
      hasWaited = true
      await pause(LOOK_MS)
      if (leaving.signal.aborted || webhook !== of) return false
    }
    return !hasWaited && !leaving.signal.aborted
  }

  /** Sends a message, and returns the answer. Without an answer, the status is 0 and `problem` says why. */
  function post(message: Message): Promise<Outcome> {
    const headers = signedHeaders(webhook, message, now())
    const { body } = message
    return sender
      .send({ body, headers, timeoutMs: TIMEOUT_MS })
      .catch(({ message: problem }: Error) => ({ status: 0, retryAfter: undefined, problem }))
  }

  async function recordOutcome({ of, delivered }: Next, outcome: Outcome): Promise<void> {
    if (outcome.status < 200 || outcome.status > 299) {
      counts.failed++
      await recordFailure(of, outcome)
      return
    }
    counts.delivered++
    const isRecorded = await record(of, { ...delivered, ...NO_FAILURE })
    if (isRecorded && of.failingSince !== undefined) log.info(who, 'webhook delivers again')
  }

  async function recordFailure(of: StoredWebhook, outcome: Outcome): Promise<void> {
    const { status, retryAfter, problem = `it answered ${status}` } = outcome
    const isGone = status === 410
    const waitMs = nextRetryMs(of.failures, retryAfter, now())
    const nextTryAt = monotonicNow() + waitMs
    const isRecorded = await record(of, {
      failures: of.failures + 1,
      failingSince: of.failingSince ?? now(),
      lastError: problem,
      retryAt: now() + waitMs,
      disabled: isGone ? 'gone' : undefined,
    })
    if (!isRecorded) return
    retryAt = nextTryAt
    if (isGone) log.warn(who, 'webhook disabled: its receiver answered 410')
    else if (of.failingSince === undefined) log.warn({ ...who, reason: problem }, 'webhook fails')
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

  const pause = (ms: number) => wait(ms, leaving.signal)
  const working = work()

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
      const ending = new AbortController()
      const ended = working.then(() => true)
      const isEnded = await Promise.race([ended, wait(timeoutMs, ending.signal).then(() => false)])
      ending.abort()
      isCutOff = true
      sender.close()
      await working
      return isEnded
    },
  }
}

const NO_FAILURE = {
  ...{ failures: 0, failingSince: undefined, lastError: undefined, retryAt: undefined },
}

const sleepUntil = (ms: number, signal: AbortSignal) =>
  sleep(ms, undefined, { signal }).catch(() => {})

/** `lost` for an empty cursor, or one that no release has written. */
function positionOf({ cursor }: WebhookProgress): ChangePosition | 'lost' | undefined {
  return cursor === undefined ? undefined : (decodeChangeCursor(cursor) ?? 'lost')
}
