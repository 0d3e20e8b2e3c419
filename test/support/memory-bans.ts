import type { Ban, BanStore } from '../../src/limits/ban-store.ts'

/** A store that several processes might share, all of them in one. */
export function memoryBans(kept: Ban[] = []): BanStore & { readonly kept: Ban[]; written(): void } {
  let revision = 0
  return {
    kept,
    /** To be told of what was written to `kept` as if by another process. */
    written: () => {
      revision++
    },
    load: async function* () {
      yield [...kept]
    },
    save: async ban => {
      kept.push(ban)
    },
    lift: async () => kept.splice(0),
    revision: () => String(revision),
  }
}
