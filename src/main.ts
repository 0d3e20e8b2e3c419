#!/usr/bin/env node
import { EXIT, UsageError } from './cli/command-context.ts'
import { runCommandLine } from './cli/command-line.ts'
import { OperatorError } from './errors.ts'

function report(error: unknown): number {
  if (error instanceof OperatorError) {
    for (const problem of error.problems) console.error(problem)
    return EXIT.failed
  }
  if (error instanceof UsageError) {
    console.error(`${error.message}; see user-records-service --help`)
    return EXIT.wrongUsage
  }
  console.error(error)
  return EXIT.failed
}

process.exit(await runCommandLine(process.argv.slice(2), process.env).catch(report))
