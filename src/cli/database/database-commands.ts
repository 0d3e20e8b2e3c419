import type { Command } from 'commander'
import {
  type CommandContext,
  type JsonFlags,
  jsonOption,
  UsageError,
} from '../terminal/command-context.ts'
import type { CopyFlags } from './copy.ts'

/** Adds `backup`, `restore`, `check`, `compact` and `copy`. */
export function addDatabaseCommands(program: Command, { terminal, run }: CommandContext): void {
  program
    .command('backup')
    .description('copy the database to a file; a service may be running')
    .argument(
      '<FILE>',
      'where to write the backup; a file there is replaced once the backup is complete',
    )
    .addOption(jsonOption())
    .action((file: string, flags: JsonFlags) =>
      run(async () => {
        requireName(file)
        const { backup } = await import('./database-work.ts')
        return backup(terminal, { ...flags, file })
      }),
    )
  program
    .command('restore')
    .description('replace the database with a backup; no service may be running')
    .argument('<FILE>', 'a backup of this release or an older one')
    .addOption(jsonOption())
    .action((file: string, flags: JsonFlags) =>
      run(async () => {
        requireName(file)
        const { restore } = await import('./database-work.ts')
        return restore(terminal, { ...flags, file })
      }),
    )
  program
    .command('check')
    .description('check the whole database for damage; a service may be running')
    .addOption(jsonOption())
    .action((flags: JsonFlags) =>
      run(async () => {
        const { check } = await import('./database-work.ts')
        return check(terminal, flags)
      }),
    )
  program
    .command('compact')
    .description('shrink the database file by its free space; no service may be running')
    .addOption(jsonOption())
    .action((flags: JsonFlags) =>
      run(async () => {
        const { compact } = await import('./database-work.ts')
        return compact(terminal, flags)
      }),
    )
  program
    .command('copy')
    .description('copy everything from one database to another, empty one')
    .requiredOption(
      '--from <URL>',
      'the database to read, like DATABASE_URL; a service may be running',
    )
    .requiredOption('--to <URL>', 'the database to fill; no service may be running')
    .addOption(jsonOption())
    .addHelpText('after', COPY_HELP)
    .action((flags: CopyFlags) =>
      run(async () => {
        const { copy } = await import('./copy.ts')
        return copy(terminal, flags)
      }),
    )
}

const COPY_HELP = `
Copies users with their ids, password digests and times, used ids, idempotency keys, bans, API keys and signing keys.
An interrupted copy starts over when the command runs again. Until it is complete, no service can use the database of --to.`

function requireName(file: string): void {
  if (file === '') throw new UsageError('FILE must not be empty')
}
