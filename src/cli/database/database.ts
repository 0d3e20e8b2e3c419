import type { DatabaseTasks, TaskOptions as TasksOptions } from '../../storage/database-tasks.ts'
import { copyDatabases } from '../../wiring/copy-databases.ts'
import { withDatabaseTasks } from '../../wiring/with-database-tasks.ts'
import { EXIT, type JsonFlags, UsageError } from '../terminal/command-context.ts'
import { grouped, type Progress } from '../terminal/progress.ts'
import { runTask, type Task, type TaskOptions } from '../terminal/run-task.ts'
import { print, printJson, readConfig, type Terminal } from '../terminal/terminal.ts'

export interface MigrateFlags extends JsonFlags {
  /** Changes nothing. */
  readonly status?: boolean
  /** Builds the index of words again. */
  readonly reindex?: boolean
}

/**
 * Brings the database to the schema of this release, or only prints which migrations were applied. The next call, or a service,
 * goes on with an index of words whose building was interrupted.
 */
export async function migrate(terminal: Terminal, flags: MigrateFlags): Promise<number> {
  const { status = false, reindex = false, json } = flags
  if (status && reindex)
    throw new UsageError('--status changes nothing, so it cannot be given with --reindex')
  return runOnDatabase(terminal, { json, unit: 'ids' }, async (tasks, { progress, signal }) => {
    const onIndexing = ({ through = 0, lastId = 0 }) =>
      progress.update(through, through / Math.max(1, lastId))
    if (!status) await tasks.migrate({ reindex, signal, onIndexing })
    const migrations = await tasks.migrationStatus()
    return {
      lines: migrations.map(({ name, appliedAt }) => {
        return `${name}  ${appliedAt === undefined ? 'pending' : `applied ${appliedAt}`}`
      }),
      json: migrations.map(({ name, appliedAt }) => ({ name, applied_at: appliedAt ?? null })),
    }
  })
}

export interface FileFlags extends JsonFlags {
  readonly file: string
}

/** Copies the database into `file` and prints its size. */
export async function backup(terminal: Terminal, { file, json }: FileFlags): Promise<number> {
  requireName(file)
  return runOnDatabase(terminal, { ...ALONE, json }, async (tasks, { progress }) => {
    const { bytes } = await tasks.backup({ file, onProgress: showingBytes(progress) })
    return { lines: [`${file}: ${inMegabytes(bytes)} MB, checked`], json: { file, bytes } }
  })
}

/** Replaces the database with `file` and prints where the previous one is. */
export async function restore(terminal: Terminal, { file, json }: FileFlags): Promise<number> {
  requireName(file)
  return runOnDatabase(terminal, { ...ALONE, json }, async (tasks, { progress }) => {
    const onProgress = showingBytes(progress)
    const { setAside, pending } = await tasks.restore({ file, onProgress })
    const kept = setAside === undefined ? [] : [`${setAside}: the previous database`]
    return {
      lines: [`${tasks.name}: restored from ${file}`, ...kept, ...pendingLines(pending)],
      json: { database: tasks.name, backup: file, kept: setAside ?? null, pending },
    }
  })
}

/** Prints a line for each fault of the database, or that it is sound, and how to check what is left to the engine. */
export function check(terminal: Terminal, { json }: JsonFlags): Promise<number> {
  return runOnDatabase(terminal, { ...ALONE, json }, async tasks => {
    const { faults, pending, advice } = await tasks.check()
    const sound = faults.length === 0
    const found = [...(sound ? ['sound'] : faults), ...(advice === undefined ? [] : [advice])]
    const lines = found.map(line => `${tasks.name}: ${line}`)
    return {
      lines: [...lines, ...(sound ? pendingLines(pending) : [])],
      json: { database: tasks.name, sound, faults, pending },
      exitCode: sound ? EXIT.done : EXIT.foundFaults,
    }
  })
}

/** Returns free space of the database to the file system and prints its size before and after. */
export function compact(terminal: Terminal, { json }: JsonFlags): Promise<number> {
  return runOnDatabase(terminal, { ...ALONE, json }, async tasks => {
    const { bytesBefore, bytesAfter } = await tasks.compact({ environment: terminal.environment })
    const sizes = `${inMegabytes(bytesBefore)} MB before, ${inMegabytes(bytesAfter)} MB now`
    return {
      lines: [`${tasks.name}: ${sizes}`],
      json: { database: tasks.name, bytes_before: bytesBefore, bytes_after: bytesAfter },
    }
  })
}

export interface CopyFlags extends JsonFlags {
  readonly from: string
  readonly to: string
}

/** Copies everything from one database into another and prints how much it was. */
export function copy(terminal: Terminal, { from, to, json }: CopyFlags): Promise<number> {
  const hint = 'interrupted: run the same command again to start over'
  const startedAt = performance.now()
  return runAndPrint(terminal, { json, unit: 'users', hint }, async ({ progress, signal }) => {
    const { environment } = terminal
    const copied = await copyDatabases({
      ...{ from, to, environment, signal },
      onProgress: ({ step, users, totalUsers }) => {
        const share = totalUsers === 0 ? undefined : Math.min(1, users / totalUsers)
        progress.update(users, share, step === 'copy' ? 'users' : 'users verified')
      },
    })
    const { users, idempotencyKeys, bans, apiKeys, lastId, checksum, ...named } = copied
    const seconds = (performance.now() - startedAt) / 1000
    const rows = `${grouped(users)} users, ${grouped(idempotencyKeys)} idempotency keys`
    const others = `${grouped(bans)} bans, ${grouped(apiKeys)} API keys`
    return {
      lines: [`${named.to}: ${rows}, ${others}, verified, in ${seconds.toFixed(1)} s`],
      json: {
        ...{ ...named, users, idempotency_keys: idempotencyKeys, bans, api_keys: apiKeys },
        ...{ last_id: lastId, checksum, seconds: Number(seconds.toFixed(3)) },
      },
    }
  })
}

/** While SQLite works on this thread, only the default action of a signal ends the process at once. */
const ALONE = { unit: 'MB', isAbortable: false }

const BYTES_PER_MB = 1e6

function inMegabytes(bytes: number): string {
  return (bytes / BYTES_PER_MB).toFixed(1)
}

function showingBytes(progress: Progress): TasksOptions['onProgress'] {
  return step => {
    if (step === 'check') progress.tell('checking each page, row and index')
    else progress.update(step.done / BYTES_PER_MB, step.done / step.total)
  }
}

function pendingLines(names: readonly string[]): readonly string[] {
  return names.length === 0
    ? []
    : [`pending, for the next start or \`migrate\`: ${names.join(', ')}`]
}

function requireName(file: string): void {
  if (file === '') throw new UsageError('FILE must not be empty')
}

/** The result of a command, in both forms in which it can be printed. */
interface Outcome {
  readonly lines: readonly string[]
  readonly json: unknown
  /** `EXIT.done` if left out. */
  readonly exitCode?: number
}

interface RunOptions extends JsonFlags, TaskOptions {}

function runOnDatabase(
  terminal: Terminal,
  options: RunOptions,
  work: (tasks: DatabaseTasks, task: Task) => Promise<Outcome>,
): Promise<number> {
  return runAndPrint(terminal, options, task =>
    withDatabaseTasks(readConfig(terminal), tasks => work(tasks, task)),
  )
}

function runAndPrint(
  terminal: Terminal,
  { json: asJson = false, ...options }: RunOptions,
  work: (task: Task) => Promise<Outcome>,
): Promise<number> {
  return runTask(terminal, options, async task => {
    const { lines, json, exitCode = EXIT.done } = await work(task)
    task.progress.end()
    await (asJson ? printJson(terminal, json) : print(terminal, lines.join('\n')))
    return exitCode
  })
}
