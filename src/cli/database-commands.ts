import type { Command } from 'commander'
import { type CommandContext, UsageError } from './command-context.ts'

/** `backup`, `restore` and `check`. */
export function addDatabaseCommands(program: Command, { environment, run }: CommandContext): void {
  program
    .command('backup')
    .description('copy the database into one file, also while a service writes to it')
    .argument('<FILE>', 'the backup; what is there already is replaced once it is whole')
    .action((file: string) =>
      run(async () => {
        requireName(file)
        const { backup } = await import('./database-work.ts')
        return backup(environment, file)
      }),
    )
  program
    .command('restore')
    .description('put a backup in the place of the database, which no service may have open')
    .argument('<FILE>', 'a backup of this release or an older one')
    .action((file: string) =>
      run(async () => {
        requireName(file)
        const { restore } = await import('./database-work.ts')
        return restore(environment, file)
      }),
    )
  program
    .command('check')
    .description('look through the whole database for damage, also while a service writes to it')
    .action(() =>
      run(async () => {
        const { check } = await import('./database-work.ts')
        return check(environment)
      }),
    )
}

function requireName(file: string): void {
  if (file === '') throw new UsageError('FILE must not be empty')
}
