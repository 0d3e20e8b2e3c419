import { resolve } from 'node:path'
import type { Config } from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'
import { isSameFile } from '../../files/durable-files.ts'
import type { RejectedRow } from '../../users/transfer/import-rows.ts'
import {
  ImportMismatch,
  type ImportProgress,
  ImportUnfinished,
  type RejectsSink,
} from '../../users/transfer/user-import.ts'
import type { ConflictPolicy } from '../../users/transfer/user-import-store.ts'
import { isFileOfDatabase } from '../../wiring/open-storage.ts'
import { openUserTransfer } from '../../wiring/open-user-transfer.ts'
import { EXIT, UsageError } from '../terminal/command-context.ts'
import { watchInterruption } from '../terminal/interruption.ts'
import { notify, print } from '../terminal/print.ts'
import { createProgress, grouped } from '../terminal/progress.ts'
import { readConfig } from '../terminal/read-config.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { csvRecords } from './csv-records.ts'
import { type FormatFlags, formatOf, STANDARD_STREAM } from './file-format.ts'
import { describeConflict, describeImport, summarizeImport } from './import-summary.ts'
import { openInputFile } from './input-file.ts'
import { ndjsonRecords } from './ndjson-records.ts'
import { describeRejectedRow, openRejectsFile } from './rejects-file.ts'
import { followRows, type RowProgress } from './row-progress.ts'

export interface ImportFlags extends FormatFlags {
  readonly onConflict: ConflictPolicy
  readonly rejects?: string
  readonly resume?: boolean
  readonly restart?: boolean
  readonly dryRun?: boolean
  readonly json?: boolean
}

/** How many rejected rows are shown without `--rejects`. */
const MAX_SHOWN_REJECTS = 10

/** Runs `import`. Returns the exit code. */
export async function importUsers(
  terminal: Terminal,
  flags: ImportFlags & { readonly file: string },
): Promise<number> {
  const { file, onConflict, rejects: rejectsPath, dryRun = false, json = false } = flags
  const { name: format, delimiter, isPacked } = formatOf(file, flags)
  if (rejectsPath === STANDARD_STREAM) {
    throw new UsageError('--rejects needs a file, because a resumed import rewrites the end of it')
  }
  const start = startOf(flags)
  const config = readConfig(terminal)
  if (rejectsPath !== undefined && isSameFile(rejectsPath, file)) {
    throw new UsageError('--rejects names the file to import')
  }
  requireOtherFile(file, config)
  if (rejectsPath !== undefined) requireOtherFile(rejectsPath, config)
  const interruption = watchInterruption()
  const input = openInputFile(file, { terminal, signal: interruption.signal, isPacked })
  const rejects = rejectsPath === undefined ? undefined : openRejectsFile(rejectsPath)
  const transfer = await openUserTransfer(config, { purpose: dryRun ? 'dry run' : 'import' })
  const rows = followRows(
    format === 'csv'
      ? csvRecords(input.chunks, { file: nameOf(file), delimiter })
      : ndjsonRecords(input.chunks),
    input.share,
  )
  const screen = createImportDisplay(terminal, {
    keepsRejects: rejects !== undefined,
    shareOf: rows.shareOf,
  })
  const startedAt = performance.now()
  try {
    const result = await transfer.importer.run({
      source: file === STANDARD_STREAM ? STANDARD_STREAM : resolve(file),
      records: rows.records,
      onConflict,
      start,
      rejects: rejects ?? NOWHERE,
      onProgress: screen.update,
      signal: interruption.signal,
    })
    screen.end()
    const seconds = (performance.now() - startedAt) / 1000
    const ended = { result, isDryRun: dryRun, seconds }
    await print(terminal, json ? JSON.stringify(summarizeImport(ended)) : describeImport(ended))
    if (result.end === 'interrupted') return interruption.exitCode()
    if (result.end === 'failed') throw dryRun ? result.failure : addHint(result.failure)
    const conflict = onConflict === 'fail' ? describeConflict(ended) : undefined
    if (conflict !== undefined) {
      notify(terminal, conflict)
      return EXIT.failed
    }
    return result.progress.counts.rejected > 0 ? EXIT.foundFaults : EXIT.done
  } catch (error) {
    screen.end()
    throw asOperatorError(error)
  } finally {
    interruption.end()
    rejects?.close()
    await transfer.close()
  }
}

/**
 * Throws `UsageError` for a file of the database. Even reading one would do harm: closing a file drops all locks that
 * the process holds on it.
 */
function requireOtherFile(file: string, config: Config): void {
  if (file === STANDARD_STREAM || !isFileOfDatabase(file, config)) return
  throw new UsageError(`${file} is the database, or a file that belongs to it`)
}

function startOf({ resume = false, restart = false, dryRun = false }: ImportFlags) {
  if (resume && restart) throw new UsageError('--resume cannot be used with --restart')
  const start = resume ? 'resume' : restart ? 'restart' : 'new'
  if (start !== 'new' && dryRun) throw new UsageError(`--${start} cannot be used with --dry-run`)
  return start
}

function nameOf(source: string): string {
  return source === STANDARD_STREAM ? 'standard input' : source
}

function asOperatorError(error: unknown): unknown {
  if (error instanceof ImportMismatch) return new OperatorError([error.message])
  if (!(error instanceof ImportUnfinished)) return error
  return new OperatorError([
    `an earlier import of ${nameOf(error.source)} stopped after ${grouped(error.records)} rows: ` +
      '--resume continues after them, --restart begins at the first row',
  ])
}

/** Adds the hint to resume, because the rows before the failure are done. */
function addHint(failure: unknown): unknown {
  if (!(failure instanceof OperatorError)) return failure
  const line = `${failure.message}; once that is fixed, --resume continues after the rows that are done`
  return new OperatorError([line], { cause: failure })
}

const NOWHERE: RejectsSink = { write: bytes => bytes }

/** Shows progress and rejected rows to the operator. */
function createImportDisplay(
  terminal: Terminal,
  options: { keepsRejects: boolean; shareOf: RowProgress['shareOf'] },
) {
  const progress = createProgress(terminal, { unit: 'rows' })
  let shown = 0

  function show(rejected: readonly RejectedRow[]): void {
    if (options.keepsRejects || rejected.length === 0 || shown > MAX_SHOWN_REJECTS) return
    progress.end()
    for (const row of rejected) {
      shown++
      if (shown <= MAX_SHOWN_REJECTS) notify(terminal, describeRejectedRow(row))
    }
    if (shown > MAX_SHOWN_REJECTS)
      notify(terminal, 'more rows were rejected; --rejects FILE keeps them all')
  }

  return {
    update: ({ records, resumed, rejected }: ImportProgress) => {
      show(rejected)
      progress.update(records - resumed, options.shareOf(records))
    },
    end: progress.end,
  }
}
