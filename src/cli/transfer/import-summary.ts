import type { RejectedRow } from '../../users/transfer/import-settlement.ts'
import type { ImportResult } from '../../users/transfer/user-import.ts'
import { grouped, inWords } from '../terminal/progress.ts'

/** An import that has ended. */
export interface EndedImport {
  readonly result: ImportResult
  readonly isDryRun: boolean
  readonly seconds: number
}

/** What `import --json` prints. */
export function summarizeImport({ result, isDryRun, seconds }: EndedImport) {
  const { end, progress, firstConflict } = result
  const { records, resumed, counts, conflicts } = progress
  const { rejected, ...others } = counts
  return {
    end,
    dry_run: isDryRun,
    rows: records,
    earlier_rows: resumed,
    ...others,
    // Scripts depend on the name `refused`.
    refused: rejected,
    conflicts,
    first_conflict: firstConflict ?? null,
    seconds: Math.round(seconds * 1000) / 1000,
  }
}

/** The summary in one line. */
export function describeImport({ result, isDryRun, seconds }: EndedImport): string {
  const { end, progress } = result
  const { records, resumed, counts } = progress
  const { created, updated, unchanged, skipped, rejected } = counts
  const done = Object.entries({ created, updated, unchanged, skipped, rejected })
    .filter(([name, count]) => count > 0 || name === 'created')
    .map(([name, count]) => `${grouped(count)} ${name}`)
  const rate = grouped((records - resumed) / seconds)
  const start = isDryRun ? 'dry run, nothing was changed: ' : ''
  return [
    `${start}${end === 'done' ? '' : 'stopped early: '}${grouped(records)} rows, ${done.join(', ')}`,
    resumed > 0 && `${grouped(resumed)} of the rows by an earlier run`,
    `${inWords(seconds)}, ${rate} rows/s`,
  ]
    .filter(part => part !== false)
    .join('; ')
}

/**
 * For the policy `fail`: the row at which the import ended, or, after a dry run, the row at which an import would end.
 * `undefined` without a conflict.
 */
export function describeConflict({ result, isDryRun }: EndedImport): string | undefined {
  const { firstConflict, progress } = result
  if (firstConflict === undefined) return undefined
  return isDryRun
    ? `${grouped(progress.conflicts)} of the rejected rows conflict with other users: without ` +
        `--on-conflict skip or update the import would end at the first, line ${firstConflict.line}`
    : `${describeRejectedRow(firstConflict)}; ` +
        '--resume continues with this row, and --on-conflict skip or update resolves the conflict'
}

/** A rejected row in one line, such as `line 17: email is invalid`. */
export function describeRejectedRow({ line, errors }: RejectedRow): string {
  const parts = Object.entries(errors).flatMap(([field, messages]) =>
    messages.map(message => `${field} ${message}`),
  )
  return `line ${line}: ${parts.join(', ')}`
}
