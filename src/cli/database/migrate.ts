import type { DatabaseTasks } from '../../storage/database-tasks.ts'
import { createDatabaseTasks } from '../../wiring/create-database-tasks.ts'
import { EXIT, type JsonFlags, UsageError } from '../terminal/command-context.ts'
import { watchInterruption } from '../terminal/interruption.ts'
import { print, printJson } from '../terminal/print.ts'
import { createProgress } from '../terminal/progress.ts'
import { readConfig } from '../terminal/read-config.ts'
import type { Terminal } from '../terminal/terminal.ts'

export interface MigrateFlags extends JsonFlags {
  /** Changes nothing. */
  readonly status?: boolean
  /** Builds the index of words again. */
  readonly reindex?: boolean
}

/** Brings the database to the schema of this release, or only prints which migrations were applied. */
export async function migrate(terminal: Terminal, flags: MigrateFlags): Promise<number> {
  const { status = false, reindex = false } = flags
  if (status && reindex)
    throw new UsageError('--status changes nothing, so it cannot be given with --reindex')
  const tasks = createDatabaseTasks(readConfig(terminal))
  const exitCode = status ? EXIT.done : await runMigration(terminal, { tasks, reindex })
  if (exitCode !== EXIT.done) return exitCode
  const migrations = await tasks.migrationStatus()
  if (flags.json) {
    await printJson(
      terminal,
      migrations.map(({ name, appliedAt }) => ({ name, applied_at: appliedAt ?? null })),
    )
  } else {
    const lines = migrations.map(({ name, appliedAt }) => {
      return `${name}  ${appliedAt === undefined ? 'pending' : `applied ${appliedAt}`}`
    })
    await print(terminal, lines.join('\n'))
  }
  return EXIT.done
}

/** Returns the exit code, also after a signal. The index of words is then built on by the next call, or by a service. */
async function runMigration(
  terminal: Terminal,
  { tasks, reindex }: { readonly tasks: DatabaseTasks; readonly reindex: boolean },
): Promise<number> {
  const progress = createProgress(terminal, { unit: 'ids' })
  const interruption = watchInterruption()
  const { signal } = interruption
  try {
    await tasks.migrate({
      reindex,
      signal,
      onIndexing: ({ through, lastId }) => progress.update(through, through / Math.max(1, lastId)),
    })
    return EXIT.done
  } catch (error) {
    if (!signal.aborted || (error as Error).name !== 'AbortError') throw error
    return interruption.exitCode()
  } finally {
    progress.end()
    interruption.end()
  }
}
