import { randomUUID } from 'node:crypto'
import { repeat } from '../platform/follow.ts'
import { createLease } from './delivery-lease.ts'
import type { StoredWebhook } from './webhook.ts'
import { type Deliveries, type FollowerOptions, followWebhook } from './webhook-follower.ts'

export interface RunnerOptions
  extends Omit<FollowerOptions, 'lease' | 'holder' | 'counts' | 'rest'> {
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
  const lease = createLease({ ...options, holder })
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
    return followWebhook(webhook, { ...options, lease, holder, counts, rest })
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
