import type { Command } from 'commander'
import { SCOPES } from '../../access/scopes.ts'
import { type CommandContext, type JsonFlags, jsonOption } from '../terminal/command-context.ts'
import { addGroup } from '../terminal/command-group.ts'

interface CreateFlags extends JsonFlags {
  readonly name: string
  readonly scope: readonly string[]
  readonly expires?: string
}

/** Adds `keys`, whose commands work on the API keys in the database. */
export function addAccessCommands(program: Command, { terminal, run }: CommandContext): void {
  const keys = addGroup(
    program,
    'keys',
    'create, list or revoke API keys; running services obey within two seconds',
  )
  keys
    .command('create')
    .description('create a key and print it; it is never shown again')
    .requiredOption('--name <NAME>', 'by which it is listed, logged and revoked')
    .requiredOption('--scope <SCOPE...>', `one or more of ${SCOPES.join(', ')}`)
    .option('--expires <TIME>', 'after this time, for example 90d; never if left out')
    .addOption(jsonOption())
    .action(({ name, scope, expires, ...flags }: CreateFlags) =>
      run(async () => {
        const { createKey } = await import('./keys.ts')
        return createKey(terminal, { ...flags, name, scopes: scope, expires })
      }),
    )
  keys
    .command('list')
    .description('print the keys that are not revoked, by name')
    .addOption(jsonOption())
    .action((flags: JsonFlags) =>
      run(async () => {
        const { listKeys } = await import('./keys.ts')
        return listKeys(terminal, flags)
      }),
    )
  keys
    .command('revoke')
    .argument('<NAME>', 'the name of the key')
    .description('revoke a key for ever')
    .addOption(jsonOption())
    .action((name: string, flags: JsonFlags) =>
      run(async () => {
        const { revokeKey } = await import('./keys.ts')
        return revokeKey(terminal, { ...flags, name })
      }),
    )
}
