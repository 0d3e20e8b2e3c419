import type { Command } from 'commander'
import { SCOPES } from '../access/api-key.ts'
import type { CreateFlags } from './keys.ts'
import { type CommandContext, type JsonFlags, jsonOption, UsageError } from './terminal/terminal.ts'
import type { AddFlags } from './webhooks.ts'

/** Adds `serve`, the default command. */
export function addServeCommand(program: Command, { terminal, run }: CommandContext): void {
  program
    .command('serve')
    .description('serve HTTP requests (the default command)')
    .option('--host <ADDRESS>', 'address to listen on, instead of HOST')
    .option('--port <NUMBER>', 'port to listen on, instead of PORT; 0 picks a free port')
    .action(({ host, port }: { host?: string; port?: string }) =>
      run(async () => {
        // An empty variable counts as unset, but who gives an option means it.
        if (host === '' || port === '') throw new UsageError('--host and --port must not be empty')
        const { serve } = await import('./serve/serve.ts')
        return serve(terminal.environment, {
          ...(host !== undefined && { HOST: host }),
          ...(port !== undefined && { PORT: port }),
        })
      }),
    )
}

/** Adds `keys`, whose commands work on the API keys in the database. */
export function addKeyCommands(program: Command, { terminal, run }: CommandContext): void {
  const load = () => import('./keys.ts')
  const keys = program
    .command('keys')
    .description('create, list or revoke API keys; running services obey within two seconds')
  addTo(keys, 'create', 'create a key and print it; it is never shown again')
    .requiredOption('--name <NAME>', 'by which it is listed, logged and revoked')
    .requiredOption('--scope <SCOPE...>', `one or more of ${SCOPES.join(', ')}`)
    .option('--expires <TIME>', 'after this time, for example 90d; never if left out')
    .action((flags: CreateFlags) => run(async () => (await load()).createKey(terminal, flags)))
  addTo(keys, 'list', 'print the keys that are not revoked, by name').action((flags: JsonFlags) =>
    run(async () => (await load()).listKeys(terminal), flags),
  )
  addTo(keys, 'revoke', 'revoke a key for ever')
    .argument('<NAME>', 'the name of the key')
    .action((name: string, flags: JsonFlags) =>
      run(async () => (await load()).revokeKey(terminal, name), flags),
    )
}

/** Adds `webhooks`, whose commands work on the webhooks in the database. */
export function addWebhookCommands(program: Command, { terminal, run }: CommandContext): void {
  const load = () => import('./webhooks.ts')
  const webhooks = program
    .command('webhooks')
    .description('post changes of users to addresses; running services obey within two seconds')
  addTo(webhooks, 'add', 'add a webhook and print its secret; it is never shown again')
    .requiredOption('--name <NAME>', 'by which it is listed, logged and removed')
    .requiredOption('--url <URL>', 'https: or http:, with credentials if the receiver wants them')
    .option('--from <PLACE>', 'start: all users first; only later changes if left out')
    .action((flags: AddFlags) => run(async () => (await load()).addWebhook(terminal, flags)))
  addTo(webhooks, 'list', 'print the webhooks, by name, and how far behind each is').action(
    (flags: JsonFlags) => run(async () => (await load()).listWebhooks(terminal), flags),
  )
  addTo(webhooks, 'rotate', 'print a new secret; the previous one signs too for 24 hours')
    .argument('<NAME>', 'the name of the webhook')
    .action((name: string, flags: JsonFlags) =>
      run(async () => (await load()).rotateWebhook(terminal, name, flags)),
    )
  const byName = [
    ['test', 'send one request that changes nothing, and print what came back', 'testWebhook'],
    ['replay', 'send everything again, from the beginning', 'replayWebhook'],
    ['resume', 'enable it again, or try at once what failed', 'resumeWebhook'],
    ['remove', 'remove a webhook for ever', 'removeWebhook'],
  ] as const
  for (const [command, description, work] of byName) {
    addTo(webhooks, command, description)
      .argument('<NAME>', 'the name of the webhook')
      .action((name: string, flags: JsonFlags) =>
        run(async () => (await load())[work](terminal, name), flags),
      )
  }
}

function addTo(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).addOption(jsonOption())
}
