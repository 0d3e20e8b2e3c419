import type { Command } from 'commander'
import type { DatabaseTasks } from '../storage/database-tasks.ts'
import { runTask, type Task, type TaskOptions } from './terminal/run-task.ts'
import {
  type CommandContext,
  counted,
  EXIT,
  type JsonFlags,
  jsonOption,
  type Outcome,
  type Terminal,
  UsageError,
} from './terminal/terminal.ts'

const COPY_HELP = `
Copies users with their ids, password digests and times, used ids, idempotency keys, bans, API keys, webhooks (disabled until
they are resumed) and signing keys.
An interrupted copy starts over when the command runs again. Until it is complete, no service can use the database of --to.`

/** Adds `migrate`, `backup`, `restore`, `check`, `compact` and `copy`. */
export function addDatabaseCommands(program: Command, { terminal, run }: CommandContext): void {
  const add = (name: string, description: string) =>
    program.command(name).description(description).addOption(jsonOption())

  const status = program.createOption(
    '--status',
    'only list the migrations and when each was applied',
  )
  add(
    'migrate',
    'migrate the database to the schema of this release, and the words of its users to its rules',
  )
    .option('--reindex', 'make the words of all users again, and their index if it is not right')
    .option(
      '--new-feed',
      'let cursors of GET /users/changes and ETags of lists expire, after a disk or a file was put back',
    )
    .addOption(status.conflicts(['reindex', 'newFeed']))
    .action((flags: MigrateFlags) => run(() => migrate(terminal, flags), flags))
  add('backup', 'copy the database to a file; a service may be running')
    .argument('<FILE>', 'where to write it; a file there is replaced once the backup is complete')
    .action((file: string, flags: JsonFlags) => run(() => backup(terminal, file), flags))
  add('restore', 'replace the database with a backup; no service may be running')
    .argument('<FILE>', 'a backup of this release or an older one')
    .action((file: string, flags: JsonFlags) => run(() => restore(terminal, file), flags))
  add('check', 'check the whole database for damage; a service may be running').action(
    (flags: JsonFlags) => run(() => check(terminal), flags),
  )
  add('compact', 'shrink the database file by its free space; no service may be running').action(
    (flags: JsonFlags) => run(() => compact(terminal), flags),
  )
  add('copy', 'copy everything from one database to another, empty one')
    .requiredOption(
      '--from <URL>',
      'the database to read, like DATABASE_URL; what a service writes meanwhile is not copied',
    )
    .requiredOption('--to <URL>', 'the database to fill; no service may be running')
    .addHelpText('after', COPY_HELP)
    .action((flags: CopyFlags) => run(() => copy(terminal, flags), flags))
}

interface MigrateFlags extends JsonFlags {
  readonly status?: boolean
  readonly reindex?: boolean
  readonly newFeed?: boolean
}

/** The next call, or a service, begins to make words again that an interrupted one did not. */
async function migrate(terminal: Terminal, flags: MigrateFlags): Promise<Outcome | number> {
  const { status = false, reindex = false, newFeed = false } = flags
  const options = { unit: 'ids', isAbortable: !status }
  return runOnDatabase(terminal, options, async (tasks, { progress, signal }) => {
    const onFolding = ({ through = 0, lastId = 0 }) =>
      progress(through, through / Math.max(1, lastId))
    if (!status) await tasks.migrate({ reindex, newFeed, signal, onFolding })
    const migrations = await tasks.migrationStatus()
    return {
      lines: migrations.map(({ name, appliedAt }) => {
        return `${name}  ${appliedAt === undefined ? 'pending' : `applied ${appliedAt}`}`
      }),
      json: migrations.map(({ name, appliedAt }) => ({ name, applied_at: appliedAt ?? null })),
    }
  })
}

async function backup(terminal: Terminal, file: string): Promise<Outcome | number> {
  requireName(file)
  return runOnDatabase(terminal, ALONE, async (tasks, { progress }) => {
    const onProgress = (done: number, total: number) => progress(done / BYTES_PER_MB, done / total)
    const { bytes } = await tasks.backup({ file, onProgress })
    return { lines: [`${file}: ${inMegabytes(bytes)} MB, checked`], json: { file, bytes } }
  })
}

async function restore(terminal: Terminal, file: string): Promise<Outcome | number> {
  requireName(file)
  return runOnDatabase(terminal, ALONE, async tasks => {
    const { setAside, pending, webhooks } = await tasks.restore({ file })
    const kept = setAside === undefined ? [] : [`${setAside}: the previous database`]
    return {
      lines: [
        `${tasks.name}: restored from ${file}`,
        ...kept,
        ...disabledLines(webhooks),
        ...pendingLines(pending),
      ],
      json: { database: tasks.name, backup: file, kept: setAside ?? null, pending, webhooks },
    }
  })
}

function check(terminal: Terminal): Promise<Outcome | number> {
  return runOnDatabase(terminal, ALONE, async tasks => {
    const { faults, pending, notes = [] } = await tasks.check()
    const sound = faults.length === 0
    const found = [...(sound ? ['sound'] : faults), ...notes]
    const lines = found.map(line => `${tasks.name}: ${line}`)
    return {
      lines: [...lines, ...(sound ? pendingLines(pending) : [])],
      json: { database: tasks.name, sound, faults, notes, pending },
      exitCode: sound ? EXIT.done : EXIT.foundFaults,
    }
  })
}

function compact(terminal: Terminal): Promise<Outcome | number> {
  return runOnDatabase(terminal, ALONE, async tasks => {
    const { bytesBefore, bytesAfter } = await tasks.compact()
    const sizes = `${inMegabytes(bytesBefore)} MB before, ${inMegabytes(bytesAfter)} MB now`
    return {
      lines: [`${tasks.name}: ${sizes}`],
      json: { database: tasks.name, bytes_before: bytesBefore, bytes_after: bytesAfter },
    }
  })
}

interface CopyFlags extends JsonFlags {
  readonly from: string
  readonly to: string
}

function copy(terminal: Terminal, { from, to }: CopyFlags): Promise<Outcome | number> {
  const hint = 'interrupted: run the same command again to start over'
  const options = { unit: 'users copied or verified', hint }
  const startedAt = performance.now()
  return runTask(terminal, options, async ({ progress, signal }) => {
    const { copyDatabases } = await import('../wiring/copy-databases.ts')
    const copied = await copyDatabases({
      ...{ from, to, signal, environment: terminal.environment },
      onProgress: (done, total) => progress(done, Math.min(1, done / Math.max(1, total))),
    })
    const { tables, lastId, checksum, ...named } = copied
    const seconds = (performance.now() - startedAt) / 1000
    const counts = tables.map(({ label, rows }) => counted(rows, label)).join(', ')
    return {
      lines: [
        `${named.to}: ${counts}, verified, in ${seconds.toFixed(1)} s`,
        ...disabledLines(tables.find(({ name }) => name === 'webhooks')?.rows ?? 0),
      ],
      json: {
        ...named,
        ...Object.fromEntries(tables.map(({ name, rows }) => [name, rows])),
        ...{ last_id: lastId, checksum, seconds: Number(seconds.toFixed(3)) },
      },
    }
  })
}

/** Two databases with the same webhooks must not both post. */
function disabledLines(webhooks: number): string[] {
  if (webhooks === 0) return []
  return [`${counted(webhooks, 'webhooks')} disabled until \`webhooks resume NAME\``]
}

/** While SQLite works on this thread, only the default action of a signal ends the process at once. */
const ALONE = { unit: 'MB', isAbortable: false }

const BYTES_PER_MB = 1e6

function inMegabytes(bytes: number): string {
  return (bytes / BYTES_PER_MB).toFixed(1)
}

function pendingLines(names: readonly string[]): readonly string[] {
  return names.length === 0
    ? []
    : [`pending, for the next start or \`migrate\`: ${names.join(', ')}`]
}

function requireName(file: string): void {
  if (file === '' || file.includes('://')) {
    throw new UsageError('FILE must be the path of a file, and no URL')
  }
}

async function runOnDatabase(
  terminal: Terminal,
  options: TaskOptions,
  work: (tasks: DatabaseTasks, task: Task) => Promise<Outcome>,
): Promise<Outcome | number> {
  const { withDatabaseTasks } = await import('../wiring/open-storage.ts')
  const { readConfig } = await import('./terminal/read-config.ts')
  const config = readConfig(terminal)
  return runTask(terminal, options, task => withDatabaseTasks(config, tasks => work(tasks, task)))
}
