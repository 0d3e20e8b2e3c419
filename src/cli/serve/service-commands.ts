import type { Command } from 'commander'
import type { MigrateFlags } from '../database/database.ts'
import { type CommandContext, jsonOption } from '../terminal/command-context.ts'

/** Adds `serve`, the default command, and `migrate`. */
export function addServiceCommands(program: Command, { terminal, run }: CommandContext): void {
  program
    .command('serve')
    .description('serve HTTP requests (the default command)')
    .option('--host <ADDRESS>', 'address to listen on, instead of HOST')
    .option('--port <NUMBER>', 'port to listen on, instead of PORT; 0 picks a free port')
    .action(({ host, port }: { host?: string; port?: string }) =>
      run(async () => {
        const { serve } = await import('./serve.ts')
        return serve(terminal.environment, {
          ...(host !== undefined && { HOST: host }),
          ...(port !== undefined && { PORT: port }),
        })
      }),
    )
  program
    .command('migrate')
    .description(
      'migrate the database to the schema of this release, and index its users by their words',
    )
    .option('--status', 'only list the migrations and when each was applied')
    .option(
      '--reindex',
      'build the index of words again; until it is done, lists with q are answered 503',
    )
    .addOption(jsonOption())
    .action((flags: MigrateFlags) =>
      run(async () => {
        const { migrate } = await import('../database/database.ts')
        return migrate(terminal, flags)
      }),
    )
}
