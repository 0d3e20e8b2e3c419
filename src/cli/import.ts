import { resolve } from 'node:path'
import { type Environment, loadConfig } from '../config.ts'
import { OperatorError } from '../errors.ts'
import { isSameFile } from '../storage/durable-files.ts'
import { ImportMismatch } from '../users/import-batches.ts'
import type { ImportRefusal } from '../users/import-settlement.ts'
import type { ImportProgress, ImportResult, RefusalSink } from '../users/user-import.ts'
import type { ConflictPolicy } from '../users/user-import-store.ts'
import { openUserTransfer } from '../wiring/open-user-transfer.ts'
import { EXIT, UsageError } from './command-context.ts'
import { csvRecords } from './csv-records.ts'
import { type FileFormat, formatOf, STANDARD_STREAM } from './file-format.ts'
import { openInputFile } from './input-file.ts'
import { watchInterruption } from './interruption.ts'
import { ndjsonRecords } from './ndjson-records.ts'
import { createProgress, grouped, inWords } from './progress.ts'
import { describeRefusal, openRefusalFile } from './refusal-file.ts'

export interface ImportFlags {
  readonly format?: FileFormat
  readonly onConflict: ConflictPolicy
  readonly rejects?: string
  readonly resume?: boolean
  readonly dryRun?: boolean
}

/** Where refusals are kept nowhere else, so many are shown. */
const MAX_SHOWN_REFUSALS = 10

/** Brings in users from a file; what came of it is told at the end. */
export async function importUsers(
  environment: Environment,
  flags: ImportFlags & { readonly file: string },
): Promise<number> {
  const { file, onConflict, rejects, resume = false, dryRun = false } = flags
  const readRecords = formatOf(file, flags.format) === 'csv' ? csvRecords : ndjsonRecords
  if (resume && dryRun) throw new UsageError('--resume does not go with --dry-run')
  const config = loadConfig(environment)
  if (rejects !== undefined && isSameFile(rejects, file)) {
    throw new UsageError('--rejects names the file that is imported')
  }
  if (rejects !== undefined && isSameFile(rejects, config.database.path)) {
    throw new UsageError('--rejects names the database')
  }
  const interruption = watchInterruption()
  const input = openInputFile(file, interruption.signal)
  const refusals = rejects === undefined ? undefined : openRefusalFile(rejects)
  const transfer = await openUserTransfer(config, { purpose: dryRun ? 'dry run' : 'import' })
  const screen = createScreen({ keepsRefusals: refusals !== undefined, share: input.share })
  const startedAt = performance.now()
  try {
    const result = await transfer.importer.run({
      source: file === STANDARD_STREAM ? STANDARD_STREAM : resolve(file),
      records: readRecords(input.chunks),
      onConflict,
      resume,
      refusals: refusals ?? NOWHERE,
      onProgress: screen.update,
      signal: interruption.signal,
    })
    screen.end()
    const seconds = (performance.now() - startedAt) / 1000
    console.log(`${dryRun ? 'dry run, nothing was changed: ' : ''}${summary(result, seconds)}`)
    if (result.end === 'interrupted') return interruption.exitCode()
    if (result.conflict !== undefined) {
      console.error(`${describeRefusal(result.conflict)}; ${HOW_TO_GO_ON}`)
      return EXIT.failed
    }
    return result.progress.counts.refused > 0 ? EXIT.foundFaults : EXIT.done
  } catch (error) {
    screen.end()
    throw error instanceof ImportMismatch ? new OperatorError([error.message]) : error
  } finally {
    interruption.end()
    refusals?.close()
    await transfer.close()
  }
}

const NOWHERE: RefusalSink = { write: bytes => bytes }

const HOW_TO_GO_ON =
  'with --on-conflict skip or update the import goes past it, and with --resume on from there'

/** Progress and refusals, for a person. */
function createScreen(options: { keepsRefusals: boolean; share: () => number | undefined }) {
  const progress = createProgress({ unit: 'rows' })
  let shown = 0

  function show(refusals: readonly ImportRefusal[]): void {
    if (options.keepsRefusals || refusals.length === 0 || shown > MAX_SHOWN_REFUSALS) return
    progress.end()
    for (const refusal of refusals) {
      shown++
      if (shown <= MAX_SHOWN_REFUSALS) console.error(describeRefusal(refusal))
    }
    if (shown > MAX_SHOWN_REFUSALS) console.error('more is refused: --rejects FILE keeps all of it')
  }

  return {
    update: ({ records, resumed, refusals }: ImportProgress) => {
      show(refusals)
      progress.update(records - resumed, options.share())
    },
    end: progress.end,
  }
}

function summary({ end, progress }: ImportResult, seconds: number): string {
  const { records, resumed, counts } = progress
  const { created, updated, unchanged, skipped, refused } = counts
  const done = Object.entries({ created, updated, unchanged, skipped, refused })
    .filter(([name, count]) => count > 0 || name === 'created')
    .map(([name, count]) => `${grouped(count)} ${name}`)
  const rate = grouped((records - resumed) / seconds)
  return [
    `${end === 'done' ? '' : 'ended before the end: '}${grouped(records)} rows, ${done.join(', ')}`,
    resumed > 0 && `${grouped(resumed)} rows of them earlier`,
    `${inWords(seconds)}, ${rate} rows/s`,
  ]
    .filter(part => part !== false)
    .join('; ')
}
