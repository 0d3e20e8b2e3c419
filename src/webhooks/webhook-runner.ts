import { randomUUID } from 'node:crypto'
import { repeat } from '../platform/follow.ts'
import type { Lease, StoredWebhook, WebhookStore } from './webhook.ts'
import { type Deliveries, type FollowerOptions, followWebhook } from './webhook-follower.ts'

export interface RunnerOptions
  extends Omit<FollowerOptions, 'leaseMs' | 'holder' | 'counts' | 'rest'> {
  /** Whether the database is left alone for now, as long as there is no webhook. */
  readonly isIdle: () => boolean
}

const POLL_MS = 1000

export type WebhookRunner = ReturnType<typeof startWebhooks>

/**
 * Posts the changes of users to the webhooks of the database, for each one request at a time, while this process has the lease. It
 * follows webhooks that commands add, change and remove.
 */
export function startWebhooks(options: RunnerOptions) {
  const { store, log, isIdle } = options
  const holder = randomUUID()
  const lease = createLease(store, holder, options.monotonicNow)
  const followers = new Map<string, ReturnType<typeof followWebhook>>()
  /** Since the start, also of those that another process delivers to by now. */
  const deliveries = new Map<string, Deliveries>()
  const rest = { until: Number.NEGATIVE_INFINITY }
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
    // Its receiver took nothing from then on, also before this process began.
    for (const { name, disabled, failingSince } of webhooks)
      if (disabled === 'gone') countsOf(name).pendingSince ??= failingSince
    if (hasLease && !hadLease) await poll()
  }

  function countsOf(name: string): Deliveries {
    const counts = deliveries.get(name) ?? {
      ...{ webhook: name, delivered: 0, failed: 0, pendingSince: undefined },
    }
    deliveries.set(name, counts)
    return counts
  }

  function follow(webhook: StoredWebhook) {
    const counts = countsOf(webhook.name)
    return followWebhook(webhook, { ...options, leaseMs: lease.remainingMs, holder, counts, rest })
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

/**
 * How long the lease lasts after its renewal began. Others count from when they first saw that renewal, so that they
 * begin later, whatever their clocks show.
 */
const LEASE_MS = 14_000

const RENEW_EVERY_MS = 3000

/** The right to deliver, which one process of a database has at a time. No other process has the name of its `holder`. */
function createLease(store: WebhookStore, holder: string, monotonicNow: () => number) {
  let endsAt = Number.NEGATIVE_INFINITY
  let seen: (Lease & { readonly firstAt: number }) | undefined

  async function renew(): Promise<void> {
    const beganAt = monotonicNow()
    const isRenewed = await store.renewLease(holder)
    endsAt = isRenewed ? beganAt + LEASE_MS : Number.NEGATIVE_INFINITY
  }

  /** Takes a lease that nobody has, or that was not renewed for as long as it lasts. */
  async function takeIfFree(): Promise<void> {
    const beganAt = monotonicNow()
    const { holder: other, beat } = await store.lease()
    if (seen?.holder !== other || seen.beat !== beat) {
      seen = { holder: other, beat, firstAt: monotonicNow() }
    }
    const isFree = other === '' || other === holder || beganAt - seen.firstAt >= LEASE_MS
    if (isFree && (await store.takeLease(holder, seen))) endsAt = beganAt + LEASE_MS
  }

  /** How long it may be relied on; 0 or less without it. */
  const remainingMs = (): number => endsAt - monotonicNow()

  return {
    remainingMs,

    /** Call it about once a second: it takes or renews the lease. Rejects as the store does. */
    step: async (): Promise<void> => {
      if (remainingMs() <= 0) await takeIfFree()
      else if (remainingMs() <= LEASE_MS - RENEW_EVERY_MS) await renew()
    },

    /** Lets another process have it. */
    release: async (): Promise<void> => {
      if (remainingMs() <= 0) return
      endsAt = Number.NEGATIVE_INFINITY
      await store.releaseLease(holder)
    },
  }
}
