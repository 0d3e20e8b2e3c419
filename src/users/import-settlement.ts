import type { FieldError } from '../errors.ts'
import type { ImportRecord } from './import-batches.ts'
import { EMAIL_TAKEN } from './user.ts'
import type {
  ConflictPolicy,
  ImportCounts,
  ImportedUser,
  ImportOutcome,
} from './user-import-store.ts'

/** A record that did not become a user: what is wrong, by field; by `row` where that is not known. */
export interface ImportRefusal {
  readonly line: number
  readonly errors: Readonly<Record<string, readonly string[]>>
}

/** What a record comes to before the storage has its say. */
export type Prepared =
  | { readonly user: ImportedUser }
  | { readonly refusal: ImportRefusal }
  | { readonly isSkipped: true }

export const NO_COUNTS: ImportCounts = {
  created: 0,
  updated: 0,
  unchanged: 0,
  skipped: 0,
  refused: 0,
}

/** A batch, once the storage has had its say. */
export interface Settled {
  /** The records that are done with. */
  readonly done: readonly ImportRecord[]
  readonly counts: ImportCounts
  readonly refusals: readonly ImportRefusal[]
  /** What ended the import behind them. */
  readonly conflict?: ImportRefusal
}

export const NOTHING_SETTLED: Settled = { done: [], counts: NO_COUNTS, refusals: [] }

/** What became of the records of a batch, of whose users the outcomes are. */
export function settle(of: {
  readonly batch: readonly ImportRecord[]
  readonly prepared: readonly Prepared[]
  readonly outcomes: readonly ImportOutcome[]
  readonly onConflict: ConflictPolicy
}): Settled {
  const { batch, prepared, onConflict } = of
  const outcomes = of.outcomes.values()
  const counts: Record<keyof ImportCounts, number> = { ...NO_COUNTS }
  const refusals: ImportRefusal[] = []
  for (const [index, record] of batch.entries()) {
    const item = prepared[index] as Prepared
    const outcome = 'user' in item ? (outcomes.next().value as ImportOutcome) : undefined
    if ('refusal' in item) {
      counts.refused++
      refusals.push(item.refusal)
    } else if (outcome === undefined) counts.skipped++
    else if (outcome === 'email_taken' || outcome === 'id_taken') {
      const conflict = { line: record.line, errors: TAKEN[outcome] }
      if (onConflict === 'fail') return { done: batch.slice(0, index), counts, refusals, conflict }
      counts.refused++
      refusals.push(conflict)
    } else counts[outcome]++
  }
  return { done: batch, counts, refusals }
}

const TAKEN = {
  email_taken: byField([EMAIL_TAKEN]),
  id_taken: { id: EMAIL_TAKEN.messages },
}

export function sumOf(a: ImportCounts, b: ImportCounts): ImportCounts {
  return {
    created: a.created + b.created,
    updated: a.updated + b.updated,
    unchanged: a.unchanged + b.unchanged,
    skipped: a.skipped + b.skipped,
    refused: a.refused + b.refused,
  }
}

/** Errors as they are shown; those of the row as a whole under `row`. */
export function byField(errors: readonly FieldError[]): ImportRefusal['errors'] {
  return Object.fromEntries(
    errors.map(({ field, messages }) => [field === 'user' ? 'row' : field, messages]),
  )
}
