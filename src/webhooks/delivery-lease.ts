import type { Lease, WebhookStore } from './webhook.ts'

/**
 * How long the lease lasts after its renewal began. Others count from when they first saw that renewal, so that they
 * begin later, whatever their clocks show.
 */
const LEASE_MS = 14_000

const RENEW_EVERY_MS = 3000

export interface LeaseOptions {
  readonly store: WebhookStore
  /** A name that no other process has. */
  readonly holder: string
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
}

/** The right to deliver, which one process of a database has at a time. */
export function createLease({ store, holder, monotonicNow }: LeaseOptions) {
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

  return {
    /** How long it may be relied on; 0 or less without it. */
    remainingMs: (): number => endsAt - monotonicNow(),

    /** Call it about once a second: it takes or renews the lease. Rejects as the store does. */
    step: async (): Promise<void> => {
      const remainingMs = endsAt - monotonicNow()
      if (remainingMs <= 0) await takeIfFree()
      else if (remainingMs <= LEASE_MS - RENEW_EVERY_MS) await renew()
    },

    /** Lets another process have it. */
    release: async (): Promise<void> => {
      if (endsAt <= monotonicNow()) return
      endsAt = Number.NEGATIVE_INFINITY
      await store.releaseLease(holder)
    },
  }
}
