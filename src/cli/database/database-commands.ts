import type { Command } from 'commander'
import {
  type CommandContext,
  type JsonFlags,
  jsonOption,
  UsageError,
} from '../terminal/command-context.ts'

/** Adds `backup`, `restore`, `check` and `compact`. */
export function addDatabaseCommands(program: Command, { environment, run }: CommandContext): void {
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
        return backup(environment, { ...flags, file })
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
        return restore(environment, { ...flags, file })
      }),
    )
  program
    .command('check')
    .description('check the whole database for damage; a service may be running')
    .addOption(jsonOption())
    .action((flags: JsonFlags) =>
      run(async () => {
        const { check } = await import('./database-work.ts')
        return check(environment, flags)
      }),
    )
  program
    .command('compact')
    .description('shrink the database file by its free space; no service may be running')
    .addOption(jsonOption())
    .action((flags: JsonFlags) =>
      run(async () => {
        const { compact } = await import('./database-work.ts')
        return compact(environment, flags)
      }),
    )
}

function requireName(file: string): void {
  if (file === '') throw new UsageError('FILE must not be empty')
}
