import { Console } from 'node:console'
import type { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Command, CommanderError } from 'commander'
import { maskCredentials } from '../config/url-parts.ts'
import { type ErrorCode, OperatorError, ServiceError } from '../errors.ts'
import { readVersion } from '../platform/package.ts'
import { addCommands } from './commands.ts'
import { addDatabaseCommands } from './database.ts'
import {
  type CommandContext,
  EXIT,
  isBrokenPipe,
  notify,
  print,
  printJson,
  type Terminal,
  UsageError,
  write,
} from './terminal/terminal.ts'
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

/** If the arguments begin with any other option, they are those of `serve`. */
const OPTIONS_OF_ALL = ['-h', '--help', '-v', '--version']

/**
 * Runs the command that `args` name and resolves to the exit code. Prints what went wrong on standard error. A command
 * changes nothing of the process but `streams`, SQLITE_TMPDIR in `environment` and, until it ends, what SIGINT and SIGTERM do.
 * Only a `serve` that has listened leaves more behind.
 */
export async function runCommandLine(
  args: readonly string[],
  environment: Terminal['environment'],
  streams: Pick<Terminal, 'stdout' | 'stderr'> & { readonly stdin: Readable },
): Promise<number> {
  const { stdout, stderr } = streams
  const terminal: Terminal = { environment, stdout, stderr, stdin: () => streams.stdin }
  let exitCode: number = EXIT.done
  let help = ''
  const run: CommandContext['run'] = async (command, { json = false } = {}) => {
    const outcome = await command()
    exitCode = typeof outcome === 'number' ? outcome : (outcome.exitCode ?? EXIT.done)
    if (typeof outcome === 'number') return
    if (json) await printJson(terminal, outcome.json)
    else if (outcome.lines.length > 0) await print(terminal, outcome.lines.join('\n'))
  }
  const onHelp = (text: string) => {
    help += text
  }
  const program = createProgram({ terminal, run }, onHelp)
  const [first = '-'] = args
  const isServe = first.startsWith('-') && !OPTIONS_OF_ALL.includes(first)
  // Each write reports its own error. A stream emits it too, which would end the process without a listener.
  const ignore = () => {}
  for (const stream of [stdout, stderr]) stream.on('error', ignore)
  try {
    await program.parseAsync(isServe ? ['serve', ...args] : args, { from: 'user' }).catch(error => {
      if (!(error instanceof CommanderError)) throw error
      // Commander also throws after it printed help or the version, with exit code 0.
      exitCode = error.exitCode === 0 ? EXIT.done : EXIT.wrongUsage
    })
    if (help !== '') await write(terminal, help)
  } catch (error) {
    exitCode = report(terminal, error)
  }
  // A stream emits an error only after the call of `write` has returned.
  await nextTurn()
  for (const stream of [stdout, stderr]) stream.off('error', ignore)
  return exitCode
}

function createProgram(context: CommandContext, onHelp: (text: string) => void): Command {
  const { stdout, stderr } = context.terminal
  // Commands inherit what is set before they are added.
  const program = new Command('user-records-service')
    .description('Serve user records as JSON over HTTP, and maintain their database.')
    .usage('[COMMAND] [OPTIONS]')
    .version(readVersion(), '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', EPILOGUE)
    .exitOverride()
    .configureOutput({
      writeOut: onHelp,
      writeErr: text => stderr.write(text),
      outputError: (text, write) => write(`${onOneLine(text)}; see --help\n`),
      // Only terminals have a width.
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
    })
  addCommands(program, context)
  addTransferCommands(program, context)
  addDatabaseCommands(program, context)
  program
    .command('version')
    .description('print the version')
    .action(() => context.run(async () => ({ lines: [readVersion()], json: undefined })))
  return program
}

function onOneLine(text: string): string {
  return text
    .replace('error: ', '')
    .replace(/\.?\n$/, '')
    .replaceAll('\n', ' ')
    .replace(/'([^']*:\/\/.*)'/, (_, argument: string) => `'${maskCredentials(argument)}'`)
}

const STORAGE_TROUBLES: Partial<Record<ErrorCode, string>> = {
  outcome_unknown: 'the change may have been made, so look before you repeat it',
  storage_damaged: 'the database cannot do this',
}

/** Prints what went wrong and returns the exit code. */
function report(terminal: Terminal, error: unknown): number {
  if (isBrokenPipe(error)) return EXIT.brokenPipe
  if (error instanceof UsageError) {
    notify(terminal, `${error.message}; see --help`)
    return EXIT.wrongUsage
  }
  if (error instanceof OperatorError) notify(terminal, error.problems.join('\n'))
  else if (error instanceof ServiceError) {
    const { cause } = error.details
    const reason = cause instanceof Error ? cause.message : error.code
    notify(
      terminal,
      `${STORAGE_TROUBLES[error.code] ?? 'the database is not available'}: ${reason}`,
    )
  } else if (error instanceof Error && 'syscall' in error) notify(terminal, error.message)
  else new Console(terminal.stdout, terminal.stderr).error(error)
  return EXIT.failed
}
