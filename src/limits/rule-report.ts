import { ownCopy } from '../platform/memoize.ts'
import type { RuleType } from './rules/rule-values.ts'

/** What one rule has done since the start. */
export interface RuleReport {
  readonly type: RuleType
  readonly rule: string
  readonly isDryRun: boolean
  /** Requests that the rule matched and, if it counts, counted. A request with several users counts as several. */
  readonly counted: number
  /** Of those, requests that the rule let pass. Not those that pass only because it is in dry run. */
  readonly passed: number
  /** Requests that the rule refused, with those of clients that it has banned. */
  readonly refused: number
  /** Requests that it would have refused if it were not in dry run. */
  readonly wouldRefuse: number
  /** Whom the rule has refused, also after this report. */
  readonly clients: RefusedClients
}

/** The limits as one process sees them. */
export interface LimitsReport {
  /** In the order in which requests meet them. */
  readonly rules: readonly RuleReport[]
  /** Bans in force. */
  readonly bans: number
  /** Where requests are counted. */
  readonly store: 'memory' | 'redis' | 'none'
  /** Whether that store can be reached; otherwise this process counts by itself. */
  readonly isStoreUp: boolean
}

const MINUTE_MS = 60_000
const MINUTES = 15

/** The most clients that are shown. */
const MAX_SHOWN = 10

/** The most clients that are counted in the current minute, and that are kept of each earlier one. */
const MAX_COUNTED = 1000
const MAX_KEPT = 100

type Counts = Map<string, number>

/** The clients that a rule has refused in the last 15 minutes, by what it counts. */
export type RefusedClients = ReturnType<typeof createRefusedClients>

/**
 * Counts refusals by client, in bounded memory however many clients there are. While more than `MAX_COUNTED` are refused in a
 * minute, a count may be too low by one for each `MAX_COUNTED` refusals in it; who is refused more often than that is not missed.
 */
export function createRefusedClients(monotonicNow: () => number) {
  /** By number of the minute, the oldest first. */
  const minutes = new Map<number, Counts>()
  const minuteNow = () => Math.floor(monotonicNow() / MINUTE_MS)

  function beginMinute(minute: number): Counts {
    for (const [number, counts] of minutes) {
      if (number <= minute - MINUTES) minutes.delete(number)
      else if (counts.size > MAX_KEPT) minutes.set(number, new Map(greatest(counts, MAX_KEPT)))
    }
    const counts: Counts = new Map()
    minutes.set(minute, counts)
    return counts
  }

  return {
    /** Adds a refusal. A client without an address is not counted. */
    add: (client: string | undefined): void => {
      if (client === undefined) return
      const minute = minuteNow()
      const counts = minutes.get(minute) ?? beginMinute(minute)
      const count = counts.get(client)
      if (count !== undefined) counts.set(client, count + 1)
      else if (counts.size < MAX_COUNTED) counts.set(ownCopy(client), 1)
      else takeOne(counts)
    },

    /** The clients that were refused most, the most first. */
    most: (): { readonly client: string; readonly refused: number }[] => {
      const oldest = minuteNow() - MINUTES
      const sums: Counts = new Map()
      for (const [minute, counts] of minutes) {
        if (minute <= oldest) continue
        for (const [client, count] of counts) sums.set(client, (sums.get(client) ?? 0) + count)
      }
      return greatest(sums, MAX_SHOWN).map(([client, refused]) => ({ client, refused }))
    },
  }
}

/** Takes one from each count, as Misra and Gries do: https://doi.org/10.1016/0167-6423(82)90012-0. */
function takeOne(counts: Counts): void {
  for (const [client, count] of counts) {
    if (count === 1) counts.delete(client)
    else counts.set(client, count - 1)
  }
}

function greatest(counts: Counts, most: number): [client: string, count: number][] {
  return [...counts].sort(([, one], [, other]) => other - one).slice(0, most)
}
