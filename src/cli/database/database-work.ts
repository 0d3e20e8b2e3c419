import type { DatabaseTasks, TaskOptions } from '../../storage/database-tasks.ts'
import { createDatabaseTasks } from '../../wiring/create-database-tasks.ts'
import { EXIT, type JsonFlags } from '../terminal/command-context.ts'
import { print, printJson } from '../terminal/print.ts'
import { createProgress } from '../terminal/progress.ts'
import { readConfig } from '../terminal/read-config.ts'
import type { Terminal } from '../terminal/terminal.ts'

export interface FileWorkFlags extends JsonFlags {
  readonly file: string
}

/** The result of a task, in both forms in which it can be printed. */
interface Outcome {
  readonly lines: readonly string[]
  readonly json: Readonly<Record<string, unknown>>
  /** `EXIT.done` if left out. */
  readonly exitCode?: number
}

const BYTES_PER_MB = 1e6

/** Copies the database into `file` and prints its size. */
export function backup(terminal: Terminal, { file, ...flags }: FileWorkFlags): Promise<number> {
  return runWork(terminal, flags, async (tasks, onProgress) => {
    const { bytes } = await tasks.backup({ file, onProgress })
    return { lines: [`${file}: ${inMegabytes(bytes)} MB, checked`], json: { file, bytes } }
  })
}

/** Replaces the database with `file` and prints where the previous one is. */
export function restore(terminal: Terminal, { file, ...flags }: FileWorkFlags): Promise<number> {
  return runWork(terminal, flags, async (tasks, onProgress) => {
    const { setAside, pending } = await tasks.restore({ file, onProgress })
    return {
      lines: [
        `${tasks.name}: restored from ${file}`,
        ...(setAside === undefined ? [] : [`${setAside}: the previous database`]),
        ...pendingLines(pending),
      ],
      json: { database: tasks.name, backup: file, kept: setAside ?? null, pending },
    }
  })
}

/** Prints a line for each fault of the database, or that it is sound, and how to check what is left to the engine. */
export function check(terminal: Terminal, flags: JsonFlags): Promise<number> {
  return runWork(terminal, flags, async tasks => {
    const { faults, pending, advice } = await tasks.check()
    const isSound = faults.length === 0
    const found = isSound ? ['sound'] : faults
    const ofDatabase = [...found, ...(advice === undefined ? [] : [advice])]
    return {
      lines: [
        ...ofDatabase.map(line => `${tasks.name}: ${line}`),
        ...(isSound ? pendingLines(pending) : []),
      ],
      json: { database: tasks.name, sound: isSound, faults, pending },
      exitCode: isSound ? EXIT.done : EXIT.foundFaults,
    }
  })
}

/** Returns free space of the database to the file system and prints its size before and after. */
export function compact(terminal: Terminal, flags: JsonFlags): Promise<number> {
  return runWork(terminal, flags, async tasks => {
    const { bytesBefore, bytesAfter } = await tasks.compact({ environment: terminal.environment })
    const sizes = `${inMegabytes(bytesBefore)} MB before, ${inMegabytes(bytesAfter)} MB now`
    return {
      lines: [`${tasks.name}: ${sizes}`],
      json: { database: tasks.name, bytes_before: bytesBefore, bytes_after: bytesAfter },
    }
  })
}

function pendingLines(names: readonly string[]): readonly string[] {
  if (names.length === 0) return []
  return [`pending, for the next start or \`migrate\`: ${names.join(', ')}`]
}

/**
 * Runs a task and prints its result after the progress bar is gone. Handles no signals: while SQLite works on this thread, only
 * their default action ends the process at once.
 */
async function runWork(
  terminal: Terminal,
  { json: asJson = false }: JsonFlags,
  work: (tasks: DatabaseTasks, onProgress: TaskOptions['onProgress']) => Promise<Outcome>,
): Promise<number> {
  const tasks = createDatabaseTasks(readConfig(terminal))
  const progress = createProgress(terminal, { unit: 'MB' })
  const onProgress: TaskOptions['onProgress'] = step => {
    if (step === 'check') progress.tell('checking each page, row and index')
    else progress.update(step.done / BYTES_PER_MB, step.done / step.total)
  }
  const outcome = await work(tasks, onProgress).finally(progress.end)
  const { lines, json, exitCode = EXIT.done } = outcome
  await (asJson ? printJson(terminal, json) : print(terminal, lines.join('\n')))
  return exitCode
}

function inMegabytes(bytes: number): string {
  return (bytes / BYTES_PER_MB).toFixed(1)
}
