import { type Command, Option } from 'commander'
import { type CommandContext, type JsonFlags, jsonOption } from '../terminal/terminal.ts'
import type { LiftOptions } from './bans.ts'
import type { TestOptions } from './test-limits.ts'

/** Adds `limits`, whose commands work on a rules file, and `bans`, whose commands work on the database. */
export function addLimitsCommands(program: Command, { terminal, run }: CommandContext): void {
  const limits = program
    .command('limits')
    .description('check or test a rules file; no service needs to run')
  limits
    .command('check')
    .argument('<FILE>', 'a rules file, as for LIMITS_FILE')
    .description('print the rules of a file as the service understands them, or its mistakes')
    .addOption(jsonOption())
    .action((file: string, flags: JsonFlags) =>
      run(async () => (await import('./check-limits.ts')).checkLimitsFile(terminal, file), flags),
    )
  limits
    .command('test')
    .argument('<FILE>', 'a rules file, as for LIMITS_FILE')
    .description('show what the rules would do to a new client, and why')
    .option('--method <METHOD>', 'method of the request', 'GET')
    .option('--path <PATH>', 'path of the request, with its query', '/')
    .option('--ip <ADDRESS>', 'address of the client', '127.0.0.1')
    .option('--header <HEADER>', 'for example "User-Agent: curl"; may be repeated', collect, [])
    .option('--key <NAME>', 'name of the API key that the request has')
    .option('--body <JSON>', 'body of the request')
    .option('--times <COUNT>', 'how many times the request is sent', '1')
    .option('--every <TIME>', 'how much time passes between two requests', '0')
    .addOption(
      new Option(
        '--expect <OUTCOME>',
        'exit with 3 unless every request is allowed, or unless the last one is denied',
      ).choices(['allowed', 'denied']),
    )
    .addOption(jsonOption())
    .action((file: string, options: TestOptions) =>
      run(
        async () => (await import('./test-limits.ts')).testLimitsFile(terminal, file, options),
        options,
      ),
    )
  const load = () => import('./bans.ts')
  const bans = program
    .command('bans')
    .description('list, lift or add bans; running services obey within two seconds')
  bans
    .command('list')
    .description('print the bans in force, ordered by rule and client')
    .addOption(jsonOption())
    .action((flags: JsonFlags) => run(async () => (await load()).listBans(terminal), flags))
  bans
    .command('lift')
    .argument('[KEY]', 'the client: an address, or another key as `bans list` prints it')
    .description('lift the bans of a client, of a rule, or all')
    .option('--rule <NAME>', 'only bans of this rule')
    .option('--all', 'all bans')
    .addOption(jsonOption())
    .action((key: string | undefined, flags: Omit<LiftOptions, 'key'>) =>
      run(async () => (await load()).liftBans(terminal, { ...flags, key }), flags),
    )
  bans
    .command('add')
    .argument('<RULE>', 'the name of a ban rule in LIMITS_FILE')
    .argument(
      '<KEY>',
      'the client as the rule counts it, such as its address; a JSON list for several keys',
    )
    .description('ban a client, as if it had broken the rule')
    .option('--for <TIME>', 'for example "1 hour"; the bantime of the rule if left out')
    .addOption(jsonOption())
    .action((rule: string, client: string, flags: JsonFlags & { for?: string }) =>
      run(async () => (await load()).addBan(terminal, { ...flags, rule, client }), flags),
    )
}

function collect(value: string, previous: readonly string[]): readonly string[] {
  return [...previous, value]
}
