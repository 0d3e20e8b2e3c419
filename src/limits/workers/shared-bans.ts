import { createPatientWaits } from '../../waiting/patient-waits.ts'
import type { CallKind, Calls } from '../../workers/calls.ts'
import type { AnnouncedBan, BanChange, BanExchange, BanId } from '../ban-exchange.ts'

/** To the first process: a ban of this worker. To a worker: a ban of another one. The first process says if it is new. */
export const BAN_MADE: CallKind<AnnouncedBan, boolean> = { name: 'ban made' }

/** The same ways: the ban is in the store. */
export const BAN_SAVED: CallKind<BanId, void> = { name: 'ban saved' }

/** Begins to send the bans of other workers, and returns those that may not be in the store. */
export const JOIN_BANS: CallKind<null, readonly AnnouncedBan[]> = { name: 'join bans' }

/** Returns the places in the list of the changes that this worker is the first to report. */
export const CLAIM_BAN_CHANGES: CallKind<readonly BanChange[], readonly number[]> = {
  name: 'claim ban changes',
}

/** Longer than the first process waits for the other workers. */
const PATIENCE_MS = 1000

/** The most changes in one call, so that the first process is not busy for long. */
const MAX_CLAIMED = 1000

/** Shares the bans of a worker by way of the first process. */
export function createSharedBans(firstProcess: Calls): BanExchange {
  const waits = createPatientWaits(PATIENCE_MS)

  async function claimPart(part: readonly BanChange[]): Promise<readonly BanChange[]> {
    const all = part.map((_change, index) => index)
    const claimed = await waits.wait(firstProcess.ask(CLAIM_BAN_CHANGES, part), all)
    return claimed.map(index => part[index] as BanChange)
  }

  return {
    join: receiver => {
      firstProcess.handle(BAN_MADE, ban => {
        receiver.made(ban)
        return true
      })
      firstProcess.handle(BAN_SAVED, receiver.saved)
      return firstProcess.ask(JOIN_BANS, null)
    },

    announce: async ban => {
      const isLate = waits.isLate()
      const isNew = waits.wait(firstProcess.ask(BAN_MADE, ban), true)
      return isLate || isNew
    },

    announceSaved: ban => firstProcess.tell(BAN_SAVED, ban),

    claim: async changes => {
      const claimed: BanChange[] = []
      for (let at = 0; at < changes.length; at += MAX_CLAIMED) {
        claimed.push(...(await claimPart(changes.slice(at, at + MAX_CLAIMED))))
      }
      return claimed
    },
  }
}
