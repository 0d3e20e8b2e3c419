#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { migrate } from './cli/migrate.ts'
import { serve } from './cli/serve.ts'
import { StartError } from './errors.ts'

const USAGE = `Usage: user-records-service [COMMAND] [OPTIONS]

Commands:
  serve              serve HTTP requests (the default)
  migrate            bring the database to the schema of this release
  migrate --status   list the migrations and when each was applied

Options:
  -h, --help         print this help
  -v, --version      print the version

Settings are environment variables, or lines of a .env file: see .env.example.
Exit codes: 0 done, 1 it could not be done, 2 the command line is wrong.`

class UsageError extends Error {}

async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseCommandLine(args)
  const [command = 'serve', ...extra] = positionals
  if (values.help) return print(USAGE)
  if (values.version) return print(version())
  if (extra.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(extra[0])}`)
  if (values.status && command !== 'migrate') throw new UsageError('--status goes with migrate')
  if (command === 'serve') return serve(process.env)
  if (command === 'migrate') return migrate(process.env, { statusOnly: values.status })
  throw new UsageError(`unknown command ${JSON.stringify(command)}`)
}

function parseCommandLine(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        version: { type: 'boolean', short: 'v', default: false },
        status: { type: 'boolean', default: false },
      },
    })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function print(text: string): number {
  console.log(text)
  return 0
}

function version(): string {
  const file = new URL('../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

function report(error: unknown): number {
  if (error instanceof StartError) {
    for (const problem of error.problems) console.error(problem)
    return 1
  }
  if (error instanceof UsageError) {
    console.error(`${error.message}; see user-records-service --help`)
    return 2
  }
  console.error(error)
  return 1
}

process.exit(await main(process.argv.slice(2)).catch(report))
