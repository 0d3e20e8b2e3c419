import { Readable, Writable } from 'node:stream'
import { expect } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import {
  type FinishedProcess,
  type SpawnOptions,
  withDatabase,
  withoutProgress,
} from './spawn-service.ts'

export type { FinishedProcess }

export interface CommandOptions extends Pick<SpawnOptions, 'cwd' | 'env' | 'args' | 'input'> {
  /** What each write to standard output fails with. */
  readonly outputFault?: Error
}

let isRunning = false

/**
 * Runs a command to its end as `run` does, but in this process, whose folder is `cwd` meanwhile. One at a time. No `serve`:
 * it would wait for a signal.
 */
export async function runCommand(options: CommandOptions): Promise<FinishedProcess> {
  const { cwd, env = {}, args = [], input = '' } = await withDatabase(options)
  if (isRunning) throw new Error('another command runs in this process')
  isRunning = true
  const folder = process.cwd()
  process.chdir(cwd)
  const stdout = collectText(options.outputFault)
  const stderr = collectText()
  const stdin = Readable.from([Buffer.from(input)], { objectMode: false })
  try {
    const streams = { stdin, stdout: stdout.stream, stderr: stderr.stream }
    const code = await runCommandLine(args, env, streams)
    return { code, stdout: stdout.text(), stderr: withoutProgress(stderr.text()) }
  } finally {
    process.chdir(folder)
    isRunning = false
  }
}

/** What a command printed that ended with this code and nothing on standard error. */
export async function stdoutOf(ending: Promise<FinishedProcess>, code = 0): Promise<string> {
  const { stdout, ...rest } = await ending
  expect(rest).toEqual({ code, stderr: '' })
  return stdout
}

/** What a command said that was refused with this code and printed nothing. */
export async function stderrOf(ending: Promise<FinishedProcess>, code = 1): Promise<string> {
  const { stderr, ...rest } = await ending
  expect(rest).toEqual({ code, stdout: '' })
  return stderr
}

function collectText(fault?: Error) {
  const chunks: Buffer[] = []
  const stream = new Writable({
    write: (chunk, _encoding, done) => {
      if (fault === undefined) chunks.push(chunk)
      done(fault)
    },
  })
  return { stream, text: () => Buffer.concat(chunks).toString() }
}
