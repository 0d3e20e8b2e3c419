import type { Command } from 'commander'
import { type CommandContext, type JsonFlags, jsonOption } from '../terminal/command-context.ts'
import type { CopyFlags } from './database.ts'

const COPY_HELP = `
Copies users with their ids, password digests and times, used ids, idempotency keys, bans, API keys and signing keys.
An interrupted copy starts over when the command runs again. Until it is complete, no service can use the database of --to.`

/** Adds `backup`, `restore`, `check`, `compact` and `copy`. */
export function addDatabaseCommands(program: Command, { terminal, run }: CommandContext): void {
  const load = () => import('./database.ts')
  program
    .command('backup')
    .description('copy the database to a file; a service may be running')
    .argument('<FILE>', 'where to write it; a file there is replaced once the backup is complete')
    .addOption(jsonOption())
    .action((file: string, flags: JsonFlags) =>
      run(async () => (await load()).backup(terminal, { ...flags, file })),
    )
  program
    .command('restore')
    .description('replace the database with a backup; no service may be running')
    .argument('<FILE>', 'a backup of this release or an older one')
    .addOption(jsonOption())
    .action((file: string, flags: JsonFlags) =>
      run(async () => (await load()).restore(terminal, { ...flags, file })),
    )
  program
    .command('check')
    .description('check the whole database for damage; a service may be running')
    .addOption(jsonOption())
    .action((flags: JsonFlags) => run(async () => (await load()).check(terminal, flags)))
  program
    .command('compact')
    .description('shrink the database file by its free space; no service may be running')
    .addOption(jsonOption())
    .action((flags: JsonFlags) => run(async () => (await load()).compact(terminal, flags)))
  program
    .command('copy')
    .description('copy everything from one database to another, empty one')
    .requiredOption('--from <URL>', 'the database to read, like DATABASE_URL')
    .requiredOption('--to <URL>', 'the database to fill; no service may be running')
    .addOption(jsonOption())
    .addHelpText('after', COPY_HELP)
    .action((flags: CopyFlags) => run(async () => (await load()).copy(terminal, flags)))
}
