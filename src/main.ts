#!/usr/bin/env node
import { runCommandLine } from './cli/command-line.ts'
import { EXIT, UsageError } from './cli/terminal/command-context.ts'
import { OperatorError } from './errors.ts'

/** Prints what went wrong and returns the exit code. */
function report(error: unknown): number {
  if (error instanceof OperatorError) {
    for (const problem of error.problems) console.error(problem)
    return EXIT.failed
  }
  if (error instanceof UsageError) {
    console.error(error.message)
    return EXIT.wrongUsage
  }
  console.error(error)
  return EXIT.failed
}

process.exit(await runCommandLine(process.argv.slice(2), process.env).catch(report))
