import type { FieldError } from '../../errors.ts'
import { EMAIL_TAKEN } from '../user-schemas.ts'
import type { ImportRecord } from './import-batches.ts'
import type { ImportCounts, ImportedUser, ImportOutcome } from './user-import-store.ts'

/** A record that did not become a user, with messages by field. `row` has those about the record as a whole. */
export interface RejectedRow {
  readonly line: number
  readonly errors: Readonly<Record<string, readonly string[]>>
}

/** A record before the storage decides about it. */
export type Prepared =
  | { readonly user: ImportedUser }
  | { readonly rejected: RejectedRow }
  | { readonly isSkipped: true }

export const NO_COUNTS: ImportCounts = {
  created: 0,
  updated: 0,
  unchanged: 0,
  skipped: 0,
  rejected: 0,
}

/** A batch after the storage has decided. */
export interface Settled {
  /** The records that are done. */
  readonly done: readonly ImportRecord[]
  readonly counts: ImportCounts
  readonly rejected: readonly RejectedRow[]
  /** The rows in conflict with another user: rejected ones, or the one at which the import ends. */
  readonly conflicts: readonly RejectedRow[]
}

/** Joins the records of a batch with the outcomes of its users. */
export function settleBatch({
  batch,
  prepared,
  outcomes,
  endsAtConflict,
}: {
  readonly batch: readonly ImportRecord[]
  readonly prepared: readonly Prepared[]
  /** One for each prepared user, up to the conflict that ended the batch. */
  readonly outcomes: readonly ImportOutcome[]
  /** Whether the first conflict ends the import. */
  readonly endsAtConflict: boolean
}): Settled {
  const nextOutcomes = outcomes.values()
  const counts: Record<keyof ImportCounts, number> = { ...NO_COUNTS }
  const rejected: RejectedRow[] = []
  const conflicts: RejectedRow[] = []
  for (const [index, record] of batch.entries()) {
    const item = prepared[index] as Prepared
    const outcome = 'user' in item ? (nextOutcomes.next().value as ImportOutcome) : undefined
    if ('rejected' in item) {
      counts.rejected++
      rejected.push(item.rejected)
    } else if (outcome === undefined) counts.skipped++
    else if (outcome === 'email_taken' || outcome === 'id_taken') {
      const conflict = { line: record.line, errors: TAKEN[outcome] }
      conflicts.push(conflict)
      if (endsAtConflict) return { done: batch.slice(0, index), counts, rejected, conflicts }
      counts.rejected++
      rejected.push(conflict)
    } else counts[outcome]++
  }
  return { done: batch, counts, rejected, conflicts }
}

const TAKEN = {
  email_taken: errorsByField([EMAIL_TAKEN]),
  id_taken: { id: EMAIL_TAKEN.messages },
}

export function addCounts(a: ImportCounts, b: ImportCounts): ImportCounts {
  return {
    created: a.created + b.created,
    updated: a.updated + b.updated,
    unchanged: a.unchanged + b.unchanged,
    skipped: a.skipped + b.skipped,
    rejected: a.rejected + b.rejected,
  }
}

/** Messages by field; those about the row as a whole under `row`. */
export function errorsByField(errors: readonly FieldError[]): RejectedRow['errors'] {
  return Object.fromEntries(
    errors.map(({ field, messages }) => [field === 'user' ? 'row' : field, messages]),
  )
}
