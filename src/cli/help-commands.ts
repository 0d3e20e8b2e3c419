import type { Command } from 'commander'
import { nearest } from '../config/did-you-mean.ts'
import { readVersion } from '../version.ts'
import { type CommandContext, EXIT, UsageError } from './terminal/command-context.ts'
import { print } from './terminal/print.ts'

/** Adds `help` and `version`. */
export function addHelpCommands(program: Command, { terminal, run }: CommandContext): void {
  program
    .command('help')
    .argument('[COMMAND...]', 'for example `serve` or `limits test`; all commands if left out')
    .description('print the help of a command')
    .action((words: readonly string[]) => {
      words.reduce(findCommand, program).outputHelp()
    })
  program
    .command('version')
    .description('print the version')
    .action(() =>
      run(async () => {
        await print(terminal, readVersion())
        return EXIT.done
      }),
    )
}

/** Throws `UsageError` for an argument that a command does not take. */
export function rejectExtraArgument(program: Command, command: Command): void {
  const { args, registeredArguments } = command
  const extra = args[registeredArguments.length]
  if (extra === undefined || registeredArguments.at(-1)?.variadic) return
  // Commander hands an unknown command to the default command as its argument.
  const isUnknownCommand = program.args[0] === extra && program.args[0] !== command.name()
  const group = isUnknownCommand ? program : command
  if (group.commands.length > 0) findCommand(group, extra)
  throw new UsageError(`unexpected argument ${JSON.stringify(extra)}`)
}

/** Finds a command of `group`. Throws `UsageError` for an unknown name, and suggests the most similar known one. */
function findCommand(group: Command, name: string): Command {
  const command = group.commands.find(each => each.name() === name)
  if (command !== undefined) return command
  const meant = nearest(
    name,
    group.commands.map(each => each.name()),
  )
  const hint = meant === undefined ? '' : ` (Did you mean ${meant}?)`
  throw new UsageError(`unknown command ${JSON.stringify(name)}${hint}`, group)
}
