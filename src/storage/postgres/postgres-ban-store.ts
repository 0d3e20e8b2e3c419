import { randomUUID } from 'node:crypto'
import type { Ban, BanStore } from '../../limits/ban-store.ts'
import {
  type BanPosition,
  deleteBans,
  deleteEndedBans,
  listBanPage,
  PAGE_ROWS,
  readBanPage,
  readChangesOfOthers,
  setWriter,
  upsertBans,
} from './ban-statements.ts'
import { banKey } from './ban-text.ts'
import { type Closing, createBatches } from './batches.ts'
import type { Connections } from './postgres-connections.ts'

export interface PostgresBanStoreOptions {
  readonly connections: Connections
  readonly closing: Closing
  /** Milliseconds since the epoch. Bans that end before this time are treated as ended. */
  readonly now: () => number
}

/** Bans in the table `bans` of PostgreSQL. Saving a ban deletes some of those that have ended. */
export function createPostgresBanStore({
  connections,
  closing,
  now,
}: PostgresBanStoreOptions): BanStore {
  /** Marks the changes of this process, so that its own ones do not change its revision. */
  const writer = randomUUID()
  const saves = createBatches<Ban, void>({
    closing,
    run: async bans => {
      await connections.transaction(
        async session => {
          await setWriter(session, writer)
          await upsertBans(session, bans)
          await deleteEndedBans(session, now())
        },
        // Another process may be lifting many.
        { lane: 'aside', countWrites: () => bans.length },
      )
      return bans.map(() => ({ value: undefined }))
    },
    keysOf: ban => [banKey(ban)],
  })

  async function* load(): AsyncIterable<readonly Ban[]> {
    let after: BanPosition | undefined
    for (;;) {
      const { bans, last } = await connections.read(session => readBanPage(session, now(), after), {
        lane: 'aside',
      })
      yield bans
      if (bans.length < PAGE_ROWS) return
      after = last
    }
  }

  return {
    load,

    list: query =>
      connections.read(session => listBanPage(session, now(), query), { lane: 'aside' }),

    save: saves.add,

    lift: async selection => {
      const deleted = await connections.transaction(
        async session => {
          await setWriter(session, writer)
          return deleteBans(session, selection)
        },
        { lane: 'long', countWrites: () => 1 },
      )
      return deleted
        .filter(({ endsAt }) => endsAt > now())
        .sort((one, other) => one.endsAt - other.endsAt)
    },

    revision: () =>
      connections.read(session => readChangesOfOthers(session, writer), { lane: 'aside' }),
  }
}
