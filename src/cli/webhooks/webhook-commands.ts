import type { Command } from 'commander'
import { type CommandContext, type JsonFlags, jsonOption } from '../terminal/terminal.ts'
import type { AddFlags } from './webhooks.ts'

/** Adds `webhooks`, whose commands work on the webhooks in the database. */
export function addWebhookCommands(program: Command, { terminal, run }: CommandContext): void {
  const load = () => import('./webhooks.ts')
  const webhooks = program
    .command('webhooks')
    .description('post changes of users to addresses; running services obey within two seconds')
  webhooks
    .command('add')
    .description('add a webhook and print its secret; it is never shown again')
    .requiredOption('--name <NAME>', 'by which it is listed, logged and removed')
    .requiredOption('--url <URL>', 'https: or http:, with credentials if the receiver wants them')
    .option('--from <PLACE>', 'start: all users first; only later changes if left out')
    .addOption(jsonOption())
    .action((flags: AddFlags) => run(async () => (await load()).addWebhook(terminal, flags)))
  webhooks
    .command('list')
    .description('print the webhooks, by name, and how far behind each is')
    .addOption(jsonOption())
    .action((flags: JsonFlags) => run(async () => (await load()).listWebhooks(terminal), flags))
  webhooks
    .command('rotate')
    .argument('<NAME>', 'the name of the webhook')
    .description('print a new secret; the previous one signs too for 24 hours')
    .addOption(jsonOption())
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
    webhooks
      .command(command)
      .argument('<NAME>', 'the name of the webhook')
      .description(description)
      .addOption(jsonOption())
      .action((name: string, flags: JsonFlags) =>
        run(async () => (await load())[work](terminal, name), flags),
      )
  }
}
