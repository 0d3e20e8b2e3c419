import { Console } from 'node:console'
import { Command, CommanderError } from 'commander'
import type { Environment } from '../config/settings.ts'
import { OperatorError, ServiceError } from '../errors.ts'
import { readVersion } from '../version.ts'
import { addAccessCommands } from './access/access-commands.ts'
import { addDatabaseCommands } from './database/database-commands.ts'
import { addHelpCommands, rejectExtraArgument } from './help-commands.ts'
import { addLimitsCommands } from './limits/limits-commands.ts'
import { addServiceCommands } from './serve/service-commands.ts'
import { type CommandContext, EXIT, UsageError } from './terminal/command-context.ts'
import { notify } from './terminal/print.ts'
import { isBrokenPipe, watchStandardStreams } from './terminal/standard-streams.ts'
import { createTerminal, type StandardStreams, type Terminal } from './terminal/terminal.ts'
import { addTransferCommands } from './transfer/transfer-commands.ts'

const EPILOGUE = `
Settings are environment variables, or lines of a .env file: see .env.example.

Exit codes:
  0    success
  1    failure
  2    wrong command line
  3    done, but with findings: rejected rows, a damaged database, an unexpected outcome
  130  interrupted by SIGINT (Ctrl-C)
  141  the output was closed, for example by head
  143  interrupted by SIGTERM
After SIGINT or SIGTERM, serve exits with 0 if every request was answered, otherwise with 1.`

/**
 * Runs the command that `args` name and resolves to the exit code. Prints what went wrong on standard error. No command but
 * a `serve` that listened touches the process beyond `streams` and, until it ends, SIGINT and SIGTERM.
 */
export async function runCommandLine(
  args: readonly string[],
  environment: Environment,
  streams: StandardStreams,
): Promise<number> {
  const terminal = createTerminal(environment, streams)
  const watched = watchStandardStreams(terminal)
  try {
    const exitCode = await runCommand(args, terminal)
    await watched.throwIfLost()
    return exitCode
  } catch (error) {
    return report(terminal, error)
  } finally {
    watched.end()
  }
}

/** Prints what went wrong and returns the exit code. */
function report(terminal: Terminal, error: unknown): number {
  if (error instanceof UsageError) {
    notify(terminal, error.message)
    return EXIT.wrongUsage
  }
  if (error instanceof OperatorError) notify(terminal, error.problems.join('\n'))
  else new Console(terminal.stdout, terminal.stderr).error(error)
  return EXIT.failed
}

/** Throws `UsageError`, and what the command throws. */
async function runCommand(args: readonly string[], terminal: Terminal): Promise<number> {
  let exitCode: number = EXIT.done
  const context: CommandContext = {
    terminal,
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
  let current = program
  for (const command of commandsUnder(program)) {
    command.exitOverride(error => {
      current = command
      throw error
    })
  }
  program.hook('preAction', (_program, command) => {
    current = command
    rejectExtraArgument(program, command)
  })
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    // Commander also throws after it printed help or the version, with exit code 0.
    const isPrinted = error instanceof CommanderError && error.exitCode === 0
    if (!isPrinted) throw withHint(error, current)
  }
  return exitCode
}

/** The width of help that is not shown on a terminal. */
const DEFAULT_HELP_CHARS = 80

function createProgram(context: CommandContext): Command {
  const program = new Command('user-records-service')
    .description('Serve user records as JSON over HTTP, and maintain their database.')
    .usage('[COMMAND] [OPTIONS]')
    .addHelpText('after', EPILOGUE)
    .helpCommand(false)
  addServiceCommands(program, context)
  addAccessCommands(program, context)
  addLimitsCommands(program, context)
  addTransferCommands(program, context)
  addDatabaseCommands(program, context)
  addHelpCommands(program, context)
  const version = readVersion()
  const { stdout } = context.terminal
  for (const command of commandsUnder(program)) {
    command
      .version(version, '-v, --version', 'print the version')
      .helpOption('-h, --help', 'print this help')
      .allowExcessArguments()
      .configureOutput({
        outputError: () => {},
        writeOut: text => stdout.write(text),
        getOutHelpWidth: () => stdout.columns ?? DEFAULT_HELP_CHARS,
      })
  }
  return program
}

function commandsUnder(command: Command): Command[] {
  return [command, ...command.commands.flatMap(commandsUnder)]
}

/** For example `user-records-service bans add`. */
function fullNameOf(command: Command): string {
  const name = command.name()
  return command.parent === null ? name : `${fullNameOf(command.parent)} ${name}`
}

/** As shells report a program that SIGPIPE ended. Node ignores that signal. */
const BROKEN_PIPE_EXIT_CODE = 128 + 13

/** Errors of the database and the system become one line for the operator. Others are returned as they are. */
function asOperatorError(error: unknown): unknown {
  if (error instanceof ServiceError) {
    const { cause } = error.details
    const reason = cause instanceof Error ? cause.message : error.code
    return new OperatorError([`the database is not available: ${reason}`], { cause: error })
  }
  const isSystemError = error instanceof Error && 'syscall' in error
  return isSystemError ? new OperatorError([error.message], { cause: error }) : error
}

/** A mistake in the command line gets a hint which help to read. Other errors are returned as they are. */
function withHint(error: unknown, current: Command): unknown {
  if (!(error instanceof CommanderError || error instanceof UsageError)) return error
  const about = error instanceof UsageError ? (error.about ?? current) : current
  return new UsageError(`${onOneLine(error.message)}; see ${fullNameOf(about)} --help`)
}

function onOneLine(message: string): string {
  return message.replace('error: ', '').replaceAll('\n', ' ')
}
