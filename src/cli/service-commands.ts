import type { Command } from 'commander'
import type { CommandContext } from './command-context.ts'

/** `serve`, which is also what the program does without a command, and `migrate`. */
export function addServiceCommands(program: Command, { environment, run }: CommandContext): void {
  const runServe = () =>
    run(async () => {
      const { serve } = await import('./serve.ts')
      return serve(environment)
    })
  program.action(runServe)
  program.command('serve').description('serve HTTP requests (the default)').action(runServe)
  program
    .command('migrate')
    .description('bring the database to the schema of this release')
    .option('--status', 'list the migrations and when each was applied, and change nothing')
    .action(({ status = false }: { status?: boolean }) =>
      run(async () => {
        const { migrate } = await import('./migrate.ts')
        return migrate(environment, { statusOnly: status })
      }),
    )
}
