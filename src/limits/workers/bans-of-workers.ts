import { createPatientWaits, type PatientWaits } from '../../waiting/patient-waits.ts'
import type { Calls } from '../../workers/calls.ts'
import type { AnnouncedBan, BanChange, BanId } from '../ban-exchange.ts'
import { createOncePerWindow } from '../rule-lines.ts'
import { BAN_MADE, BAN_SAVED, CLAIM_BAN_CHANGES, JOIN_BANS } from './shared-bans.ts'

/** In the first process: passes the bans of each worker on to the others. */
export interface BansOfWorkers {
  /** Handles the bans of a worker. */
  answer(calls: Calls, worker: number): void
  /** Call it when a worker has ended and its calls are closed. */
  remove(worker: number): void
}

/** A worker that gets bans. */
interface Member {
  readonly calls: Calls
  readonly waits: PatientWaits
  /** How many bans of a client have been sent that the worker has not confirmed. */
  readonly unconfirmed: Map<string, number>
}

/** A worker that is stopped delays a ban by this time, and only the first one. */
const PATIENCE_MS = 500

const MAX_BANS = 100_000

/** All workers look for changes twice a second; one that was stopped may come later. */
const CLAIMED_FOR_MS = 600_000

export function createBansOfWorkers(monotonicNow: () => number): BansOfWorkers {
  const members = new Map<number, Member>()
  const unsaved = new Map<string, { readonly ban: AnnouncedBan; readonly endsAt: number }>()
  const isFirstClaim = createOncePerWindow(monotonicNow, MAX_BANS)

  function claim({ happened, ban }: BanChange): boolean {
    const { rule, clientKey, endsAt } = ban
    const key = JSON.stringify([happened, rule, clientKey, endsAt])
    return isFirstClaim({ key, resetsInMs: CLAIMED_FOR_MS })
  }

  function keepUnsaved(key: string, ban: AnnouncedBan): void {
    unsaved.delete(key)
    for (const [first, { endsAt }] of unsaved) {
      if (endsAt > monotonicNow() && unsaved.size < MAX_BANS) break
      unsaved.delete(first)
    }
    unsaved.set(key, { ban, endsAt: monotonicNow() + ban.lastsMs })
  }

  function forgetUnsaved(ban: BanId): void {
    const key = keyOf(ban)
    if (unsaved.get(key)?.ban.endsAt === ban.endsAt) unsaved.delete(key)
  }

  function othersThan(worker: number): readonly Member[] {
    return [...members].filter(([number]) => number !== worker).map(([, member]) => member)
  }

  /** A worker whose confirmation of another ban of the client is still due did not know that ban when it made its own. */
  async function passOn(ban: AnnouncedBan, worker: number): Promise<boolean> {
    const key = keyOf(ban)
    if (members.get(worker)?.unconfirmed.has(key)) return false
    keepUnsaved(key, ban)
    claim({ happened: 'made', ban })
    await Promise.all(othersThan(worker).map(member => deliver(ban, member)))
    return true
  }

  return {
    answer: (calls, worker) => {
      calls.handle(JOIN_BANS, () => {
        members.set(worker, {
          calls,
          waits: createPatientWaits(PATIENCE_MS),
          unconfirmed: new Map(),
        })
        return [...unsaved.values()].map(({ ban }) => ban)
      })
      calls.handle(BAN_MADE, ban => passOn(ban, worker))
      calls.handle(BAN_SAVED, ban => {
        forgetUnsaved(ban)
        for (const other of othersThan(worker)) other.calls.tell(BAN_SAVED, ban)
      })
      calls.handle(CLAIM_BAN_CHANGES, changes =>
        changes.flatMap((change, index) => {
          if (change.happened === 'lifted') forgetUnsaved(change.ban)
          return claim(change) ? [index] : []
        }),
      )
    },

    remove: worker => void members.delete(worker),
  }
}

async function deliver(ban: AnnouncedBan, { calls, waits, unconfirmed }: Member): Promise<void> {
  // It gets the ban when it goes on.
  if (waits.isLate()) return calls.tell(BAN_MADE, ban)
  const key = keyOf(ban)
  unconfirmed.set(key, (unconfirmed.get(key) ?? 0) + 1)
  const confirmed = calls.ask(BAN_MADE, ban).finally(() => {
    const left = (unconfirmed.get(key) ?? 1) - 1
    if (left > 0) unconfirmed.set(key, left)
    else unconfirmed.delete(key)
  })
  await waits.wait(confirmed, true)
}

function keyOf({ rule, clientKey }: BanId): string {
  return `${rule}\n${clientKey}`
}
