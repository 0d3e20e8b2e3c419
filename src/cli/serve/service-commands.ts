import type { Command } from 'commander'
import type { CommandContext } from '../terminal/command-context.ts'

/** Adds `serve`, the default command. */
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
}
