import type { Command } from 'commander'
import { type CommandContext, UsageError } from './command-context.ts'
import type { TrialOptions } from './limits-trial.ts'

/** `limits`, whose commands are about a file of rules, and `bans`, whose commands act on the database. */
export function addLimitsCommands(program: Command, { environment, run }: CommandContext): void {
  const limits = group(program, 'limits', 'check and try a file of rules; needs no running service')
  limits
    .command('check')
    .argument('<FILE>', 'rules as LIMITS_FILE takes them')
    .description('print the rules of a file as they are understood, or its mistakes')
    .option('--json', 'print a JSON list for programs')
    .action((file: string, { json = false }: { json?: boolean }) =>
      run(async () => {
        const { checkLimitsFile } = await import('./limits.ts')
        return checkLimitsFile(environment, { file, asJson: json })
      }),
    )
  limits
    .command('test')
    .argument('<FILE>', 'rules as LIMITS_FILE takes them')
    .description('tell what the rules would do to a request that nobody has asked before, and why')
    .option('--method <METHOD>', 'of the request', 'GET')
    .option('--path <PATH>', 'of the request, with its query', '/')
    .option('--ip <ADDRESS>', 'of the client', '127.0.0.1')
    .option('--header <HEADER>', 'such as "User-Agent: curl"; may be repeated', collect, [])
    .option('--body <JSON>', 'of the request')
    .option('--times <COUNT>', 'how many such requests come one after another', '1')
    .option('--every <TIME>', 'how much time passes between two of them', '0')
    .action((file: string, options: TrialOptions) =>
      run(async () => {
        const { testLimitsFile } = await import('./limits-trial.ts')
        return testLimitsFile(environment, { file, options })
      }),
    )
  const bans = group(
    program,
    'bans',
    'list, lift and add bans; a running service obeys within two seconds',
  )
  bans
    .command('list')
    .description('print the bans in force, the first to end first')
    .option('--json', 'print a JSON list for programs')
    .action(({ json = false }: { json?: boolean }) =>
      run(async () => {
        const { listBans } = await import('./bans.ts')
        return listBans(environment, { asJson: json })
      }),
    )
  bans
    .command('lift')
    .argument('[KEY]', 'the client: an address, or another key as `bans list` prints it')
    .description('lift the bans of a client, of a rule, or all')
    .option('--rule <NAME>', 'those that this rule made')
    .option('--all', 'all that there are')
    .action((key: string | undefined, { rule, all = false }: { rule?: string; all?: boolean }) =>
      run(async () => {
        const { liftBans } = await import('./bans.ts')
        return liftBans(environment, { key, rule, all })
      }),
    )
  bans
    .command('add')
    .argument('<RULE>', 'a ban rule of LIMITS_FILE')
    .argument(
      '<KEY>',
      'the client by what the rule counts: an address, a header; a JSON list of several',
    )
    .description('ban a client, as if it had broken the rule')
    .option('--for <TIME>', 'such as "1 hour"; the bantime of the rule if left out')
    .action((rule: string, key: string, { for: time }: { for?: string }) =>
      run(async () => {
        const { addBan } = await import('./bans.ts')
        return addBan(environment, { rule, key, time })
      }),
    )
}

/** A command that only has others under it. */
function group(program: Command, name: string, description: string): Command {
  const command = program.command(name).description(description).usage('COMMAND [OPTIONS]')
  return command.action(() => {
    const names = command.commands.map(each => each.name()).join(', ')
    throw new UsageError(`${name} needs one of its commands: ${names}`)
  })
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value]
}
