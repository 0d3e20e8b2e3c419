import type { Command } from 'commander'
import { UsageError } from './command-context.ts'

/** Adds a command that only groups others. */
export function addGroup(program: Command, name: string, description: string): Command {
  const command = program.command(name).description(description).usage('COMMAND [OPTIONS]')
  return command.action(() => {
    const names = command.commands.map(each => each.name()).join(', ')
    throw new UsageError(`${name} needs a command: ${names}`)
  })
}
