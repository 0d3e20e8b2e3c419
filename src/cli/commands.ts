import { type Command, Option } from 'commander'
import { SCOPES } from '../access/api-key.ts'
import type { CreateFlags } from './keys.ts'
import type { LiftOptions } from './limits/bans.ts'
import type { TestOptions } from './limits/test-limits.ts'
import { type CommandContext, type JsonFlags, jsonOption, UsageError } from './terminal/terminal.ts'
import type { AddFlags } from './webhooks.ts'

/** Adds the commands for a running service: `serve`, and those for its keys, webhooks, limits and bans. */
export function addCommands(program: Command, context: CommandContext): void {
  addServeCommand(program, context)
  addKeyCommands(program, context)
  addWebhookCommands(program, context)
  addLimitsCommands(program, context)
  addBanCommands(program, context)
}

/** Adds `serve`, the default command. */
function addServeCommand(program: Command, { terminal, run }: CommandContext): void {
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
function addKeyCommands(program: Command, { terminal, run }: CommandContext): void {
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
function addWebhookCommands(program: Command, { terminal, run }: CommandContext): void {
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

/** Adds `limits`, whose commands work on a rules file. */
function addLimitsCommands(program: Command, { terminal, run }: CommandContext): void {
  const limits = program
    .command('limits')
    .description('check or test a rules file; no service needs to run')
  const expectation = new Option(
    '--expect <OUTCOME>',
    'exit with 3 unless every request is allowed, or unless the last one is denied',
  ).choices(['allowed', 'denied'])
  addTo(
    limits,
    'check',
    'print the rules of a file as the service understands them, or its mistakes',
  )
    .argument('<FILE>', 'a rules file, as for LIMITS_FILE')
    .action((file: string, flags: JsonFlags) =>
      run(
        async () => (await import('./limits/check-limits.ts')).checkLimitsFile(terminal, file),
        flags,
      ),
    )
  addTo(limits, 'test', 'show what the rules would do to a new client, and why')
    .argument('<FILE>', 'a rules file, as for LIMITS_FILE')
    .option('--method <METHOD>', 'method of the request', 'GET')
    .option('--path <PATH>', 'path of the request, with its query', '/')
    .option('--ip <ADDRESS>', 'address of the client', '127.0.0.1')
    .option('--header <HEADER>', 'for example "User-Agent: curl"; may be repeated', collect, [])
    .option('--key <NAME>', 'name of the API key that the request has')
    .option('--body <JSON>', 'body of the request')
    .option('--times <COUNT>', 'how many times the request is sent', '1')
    .option('--every <TIME>', 'how much time passes between two requests', '0')
    .addOption(expectation)
    .action((file: string, options: TestOptions) =>
      run(
        async () =>
          (await import('./limits/test-limits.ts')).testLimitsFile(terminal, file, options),
        options,
      ),
    )
}

function collect(value: string, previous: readonly string[]): readonly string[] {
  return [...previous, value]
}

/** Adds `bans`, whose commands work on the bans in the database. */
function addBanCommands(program: Command, { terminal, run }: CommandContext): void {
  const load = () => import('./limits/bans.ts')
  const bans = program
    .command('bans')
    .description('list, lift or add bans; running services obey within two seconds')
  addTo(bans, 'list', 'print the bans in force, ordered by rule and client').action(
    (flags: JsonFlags) => run(async () => (await load()).listBans(terminal), flags),
  )
  addTo(bans, 'lift', 'lift the bans of a client, of a rule, or all')
    .argument('[KEY]', 'the client: an address, or another key as `bans list` prints it')
    .option('--rule <NAME>', 'only bans of this rule')
    .option('--all', 'all bans')
    .action((key: string | undefined, flags: Omit<LiftOptions, 'key'>) =>
      run(async () => (await load()).liftBans(terminal, { ...flags, key }), flags),
    )
  addTo(bans, 'add', 'ban a client, as if it had broken the rule')
    .argument('<RULE>', 'the name of a ban rule in LIMITS_FILE')
    .argument(
      '<KEY>',
      'the client as the rule counts it, such as its address; a JSON list for several keys',
    )
    .option('--for <TIME>', 'for example "1 hour"; the bantime of the rule if left out')
    .action((rule: string, client: string, flags: JsonFlags & { for?: string }) =>
      run(async () => (await load()).addBan(terminal, { ...flags, rule, client }), flags),
    )
}

function addTo(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).addOption(jsonOption())
}
