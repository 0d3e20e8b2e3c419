import { accessSync, appendFileSync, constants, statSync, truncateSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OperatorError } from '../../errors.ts'
import { isSameFile } from '../../platform/durable-files.ts'
import type { RejectedRow } from '../../users/transfer/import-rows.ts'
import type { ImportResult, RejectsSink } from '../../users/transfer/user-import.ts'
import type { ConflictPolicy } from '../../users/transfer/user-import-store.ts'
import { openUserImport } from '../../wiring/open-import.ts'
import { readConfig, requireOtherFile } from '../terminal/read-config.ts'
import { runTask } from '../terminal/run-task.ts'
import {
  counted,
  EXIT,
  grouped,
  inWords,
  type JsonFlags,
  notify,
  print,
  type Terminal,
  toWriteError,
  UsageError,
} from '../terminal/terminal.ts'
import { ColumnsError } from './choose-columns.ts'
import { type ColumnFlags, parseColumnFlags } from './column-options.ts'
import { type InputFlags, inputFormatOf, STANDARD_STREAM } from './format.ts'
import { openText } from './open-text.ts'
import { readRecords } from './read-records.ts'

export interface ImportFlags extends InputFlags, ColumnFlags, JsonFlags {
  readonly file: string
  readonly onConflict: ConflictPolicy
  readonly passwords?: 'plain'
  readonly rejects?: string
  readonly resume?: boolean
  readonly restart?: boolean
  readonly dryRun?: boolean
}

/** Runs `import`. Returns the exit code. */
export async function importUsers(terminal: Terminal, flags: ImportFlags): Promise<number> {
  const { file, onConflict, rejects, dryRun: isDryRun = false, json = false } = flags
  const format = inputFormatOf(file, flags)
  const columns = parseColumnFlags(flags)
  const start = flags.resume ? 'resume' : flags.restart ? 'restart' : 'new'
  if (rejects === STANDARD_STREAM)
    throw new UsageError('--rejects needs a file, because a resumed import rewrites the end of it')
  const config = readConfig(terminal)
  if (rejects !== undefined && isSameFile(rejects, file))
    throw new UsageError('--rejects names the file to import')
  for (const path of rejects === undefined ? [file] : [file, rejects])
    requireOtherFile(path, config)

  return runTask(terminal, { unit: 'rows' }, async ({ progress, signal }) => {
    const text = openText(file, { ...format, terminal, signal })
    const say = (line: string) => notify(terminal, line)
    const { records, seed } = await readRecords(text, { format, columns, say })
    const sink = rejects === undefined ? undefined : createRejectsSink(rejects)
    const showRejected = createRejectsDisplay(terminal)
    const { run, close } = await openUserImport(config, {
      isDryRun,
      takesBareDigests: flags.passwords === 'plain',
    })
    const startedAt = performance.now()
    try {
      const result = await run({
        source: file === STANDARD_STREAM ? file : resolve(file),
        records,
        seed: seed + (flags.passwords ?? ''),
        ...{ onConflict, start, signal },
        rejects: sink ?? { write: bytes => bytes },
        onProgress: ({ checkpoint, resumed, rejected }) => {
          if (sink === undefined) showRejected(rejected)
          progress(checkpoint.records - resumed, text.share(), resumed)
        },
      })
      const { end, failure } = result
      const { checkpoint, conflicts, firstConflict } = result.progress
      const seconds = (performance.now() - startedAt) / 1000
      const summary = summarize(result, { isDryRun, seconds })
      await print(terminal, json ? JSON.stringify(summary.json) : summary.line)
      if (end === 'interrupted') throw signal.reason
      if (end === 'failed') throw isDryRun ? failure : addHint(failure)
      if (onConflict === 'fail' && firstConflict !== undefined)
        throw new OperatorError([describeConflict(firstConflict, conflicts, isDryRun)])
      return checkpoint.counts.rejected > 0 ? EXIT.foundFaults : EXIT.done
    } finally {
      await close()
    }
  })
}

/** Adds how to go on, because the rows before the failure are done. */
function addHint(failure: unknown): unknown {
  if (!(failure instanceof OperatorError)) return failure
  const hint =
    failure instanceof ColumnsError
      ? 'with --restart --on-conflict update, the rows that are done are read anew'
      : 'once that is fixed, --resume continues after the rows that are done'
  const [first, ...others] = failure.problems
  return new OperatorError([`${first}; ${hint}`, ...others], { cause: failure })
}

/**
 * Keeps rejected rows in a file, as NDJSON of `{"line", "errors"}`. The first write makes a new file, which only the user of this
 * process can read. Throws `OperatorError` if it cannot be written or is not a regular file: a resumed import rewrites its end.
 */
export function createRejectsSink(path: string): RejectsSink {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats?.isFile() === false)
    throw new OperatorError([`--rejects ${path} is not a regular file`])
  const writing = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw toWriteError(`--rejects ${path}`, error)
    }
  }
  writing(() => accessSync(stats === undefined ? dirname(path) : path, constants.W_OK))
  let written: number | undefined
  return {
    write: (bytes, rows) => {
      if (bytes === written && rows.length === 0) return bytes
      const text = rows.map(row => `${JSON.stringify(row)}\n`).join('')
      return writing(() => {
        const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
        const start = Math.min(bytes, size)
        if (start < size) truncateSync(path, start)
        appendFileSync(path, text, { mode: 0o600, flush: true })
        written = start + Buffer.byteLength(text)
        return written
      })
    },
  }
}

/** How many rejected rows are shown without `--rejects`. */
const MAX_SHOWN_REJECTS = 10

function createRejectsDisplay(terminal: Terminal) {
  let count = 0
  return (rejected: readonly RejectedRow[]): void => {
    for (const row of rejected) {
      count++
      if (count <= MAX_SHOWN_REJECTS) notify(terminal, describeRejectedRow(row))
      if (count === MAX_SHOWN_REJECTS + 1)
        notify(terminal, 'more rows were rejected; --rejects FILE keeps them all')
    }
  }
}

/** What an import that has ended prints: one line, or with `--json` an object. */
function summarize(
  { end, progress }: ImportResult,
  { isDryRun, seconds }: { readonly isDryRun: boolean; readonly seconds: number },
) {
  const { checkpoint, resumed, conflicts, firstConflict } = progress
  const { records } = checkpoint
  const { rejected, ...others } = checkpoint.counts
  const json = {
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
  const done = Object.entries({ ...others, rejected })
    .filter(([name, count]) => count > 0 || name === 'created')
    .map(([name, count]) => `${grouped(count)} ${name}`)
  const start = isDryRun ? 'dry run, nothing was changed: ' : ''
  const clauses = [
    `${start}${end === 'done' ? '' : 'stopped early: '}${counted(records, 'rows')}, ${done.join(', ')}`,
    ...(resumed > 0 ? [`${grouped(resumed)} of the rows by an earlier run`] : []),
    `${inWords(seconds)}, ${grouped((records - resumed) / seconds)} rows/s`,
  ]
  return { json, line: clauses.join('; ') }
}

/** For the policy `fail`: the row at which the import ended, or, after a dry run, the row at which an import would end. */
function describeConflict(first: RejectedRow, conflicts: number, isDryRun: boolean): string {
  return isDryRun
    ? `${grouped(conflicts)} of the rejected rows conflict with other users: without ` +
        `--on-conflict skip or update the import would end at the first, line ${first.line}`
    : `${describeRejectedRow(first)}; ` +
        '--resume continues with this row, and --on-conflict skip or update resolves the conflict'
}

/** A rejected row in one line, such as `line 17: email is invalid`. */
function describeRejectedRow({ line, errors }: RejectedRow): string {
  const problems = Object.entries(errors).flatMap(([field, messages]) =>
    messages.map(message => `${field} ${message}`),
  )
  return `line ${line}: ${problems.join(', ')}`
}
