import { Command, CommanderError } from 'commander'
import type { Environment } from '../config.ts'
import { OperatorError, ServiceError } from '../errors.ts'
import { readVersion } from '../version.ts'
import { type CommandContext, EXIT, UsageError } from './command-context.ts'
import { addDatabaseCommands } from './database-commands.ts'
import { addLimitsCommands } from './limits-commands.ts'
import { addServiceCommands } from './service-commands.ts'
import { addTransferCommands } from './transfer-commands.ts'

const EPILOGUE = `
Settings are environment variables, or lines of a .env file: see .env.example.
Exit codes: 0 done, 1 it could not be done, 2 the command line is wrong, 3 done, but not all was in order.`

/** The exit code of what a command line asks for. Throws `UsageError`, and what the command throws. */
export async function runCommandLine(
  args: readonly string[],
  environment: Environment,
): Promise<number> {
  let exitCode: number = EXIT.done
  const context: CommandContext = {
    environment,
    run: async command => {
      try {
        exitCode = await command()
      } catch (error) {
        if (!isBrokenPipe(error)) throw asOperatorError(error)
        exitCode = BROKEN_PIPE_EXIT_CODE
      }
    },
  }
  const program = createProgram(context)
  // What is printed after the reader has gone is nobody's loss.
  process.stdout.on('error', error => {
    if (!isBrokenPipe(error)) throw error
  })
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    // Help and version were asked for and are printed; all else is a mistake.
    if (error.exitCode !== 0) throw new UsageError(onOneLine(error.message))
  }
  return exitCode
}

function createProgram(context: CommandContext): Command {
  const program = new Command('user-records-service')
    .description('User records as JSON over HTTP, and what is to be done with its database.')
    .usage('[COMMAND] [OPTIONS]')
    .addHelpText('after', EPILOGUE)
    .helpCommand(false)
  addServiceCommands(program, context)
  addLimitsCommands(program, context)
  addTransferCommands(program, context)
  addDatabaseCommands(program, context)
  const version = readVersion()
  for (const command of commandsUnder(program)) {
    command
      .version(version, '-v, --version', 'print the version')
      .helpOption('-h, --help', 'print this help')
      .allowExcessArguments()
      .configureOutput({ outputError: () => {} })
      .exitOverride()
  }
  return program.hook('preAction', (_program, command) => refuseExcess(command))
}

function commandsUnder(command: Command): Command[] {
  return [command, ...command.commands.flatMap(commandsUnder)]
}

function refuseExcess(command: Command): void {
  const { args, registeredArguments, commands } = command
  const [extra] = args.slice(registeredArguments.length)
  if (extra === undefined || registeredArguments.at(-1)?.variadic) return
  const what = commands.length > 0 ? 'unknown command' : 'unexpected argument'
  throw new UsageError(`${what} ${JSON.stringify(extra)}`)
}

/** As shells tell of a program that SIGPIPE ended, which Node ignores. */
const BROKEN_PIPE_EXIT_CODE = 128 + 13

/** Whether the reader of the output has gone, as `head` does. */
function isBrokenPipe(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EPIPE'
}

/** What tells of the world around a command, as one line; any other error as it came. */
function asOperatorError(error: unknown): unknown {
  if (error instanceof ServiceError) {
    const { cause } = error.details
    const reason = cause instanceof Error ? cause.message : error.code
    return new OperatorError([`the database is not available: ${reason}`], { cause: error })
  }
  const isSystemError = error instanceof Error && 'syscall' in error
  return isSystemError ? new OperatorError([error.message], { cause: error }) : error
}

function onOneLine(message: string): string {
  return message.replace('error: ', '').replaceAll('\n', ' ')
}
