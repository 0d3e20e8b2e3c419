import type { Command } from 'commander'
import { SCOPES } from '../access/api-key.ts'
import type { CreateFlags } from './keys.ts'
import { type CommandContext, type JsonFlags, jsonOption } from './terminal/terminal.ts'

/** Adds `keys`, whose commands work on the API keys in the database. */
export function addKeyCommands(program: Command, { terminal, run }: CommandContext): void {
  const load = () => import('./keys.ts')
  const keys = program
    .command('keys')
    .description('create, list or revoke API keys; running services obey within two seconds')
  keys
    .command('create')
    .description('create a key and print it; it is never shown again')
    .requiredOption('--name <NAME>', 'by which it is listed, logged and revoked')
    .requiredOption('--scope <SCOPE...>', `one or more of ${SCOPES.join(', ')}`)
    .option('--expires <TIME>', 'after this time, for example 90d; never if left out')
    .addOption(jsonOption())
    .action((flags: CreateFlags) => run(async () => (await load()).createKey(terminal, flags)))
  keys
    .command('list')
    .description('print the keys that are not revoked, by name')
    .addOption(jsonOption())
    .action((flags: JsonFlags) => run(async () => (await load()).listKeys(terminal), flags))
  keys
    .command('revoke')
    .argument('<NAME>', 'the name of the key')
    .description('revoke a key for ever')
    .addOption(jsonOption())
    .action((name: string, flags: JsonFlags) =>
      run(async () => (await load()).revokeKey(terminal, name), flags),
    )
}
