import type { Ban, BanStore } from '../../src/limits/ban-store.ts'

/** A ban store in memory that behaves as if several processes shared it. */
export function memoryBans(kept: Ban[] = []): BanStore & { readonly kept: Ban[]; written(): void } {
  let revision = 0
  return {
    kept,
    /** Call it after a change of `kept` that stands for one by another process. */
    written: () => {
      revision++
    },
    load: async function* () {
      yield [...kept]
    },
    list: async ({ limit }) => ({ bans: kept.slice(0, limit), hasMore: kept.length > limit }),
    save: async ban => {
      kept.push(ban)
    },
    lift: async () => kept.splice(0),
    revision: async () => String(revision),
  }
}
