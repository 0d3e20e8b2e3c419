import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { engine } from './engine.ts'
import { databaseIn } from './new-database.ts'

export const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** Settings of services under test, so that they refuse no request only because the machine is busy. */
export const UNHURRIED = { MAX_EVENT_LOOP_DELAY: '1 minute' }

export interface SpawnOptions {
  /** Added to PATH and HOME only, so that settings of the machine do not affect the test. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd: string
  /** The program, if not the one of this checkout. */
  readonly main?: string
  readonly args?: readonly string[]
  /** Options of Node itself. The process then also has an IPC channel. */
  readonly nodeArgs?: readonly string[]
  /** Whether to keep its output after its start. A long load prints too much for the memory. */
  readonly keepsLog?: boolean
  /** The user that runs it, if not the user of the test. */
  readonly uid?: number
  readonly gid?: number
  /** Its standard input; empty if left out. */
  readonly input?: string | Buffer
  /** The hard limit of open files, if not that of the test. */
  readonly openFiles?: number
  /** Whether the test does not end the process. Whoever started it does. */
  readonly outlivesTest?: boolean
  /** Whether standard input stays open for the test to write to. */
  readonly keepsInputOpen?: boolean
  /** The open file that is its standard output, if the test does not collect that. It is closed once the process has it. */
  readonly stdoutTo?: number
}

export interface FinishedProcess {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface SpawnedService {
  readonly process: ChildProcess
  readonly url: string
  readonly port: number
  /** Its output so far. */
  stdout(): string
  readonly exited: Promise<FinishedProcess>
  /** Sends it a signal, and waits for its end. */
  end(signal: NodeJS.Signals): Promise<FinishedProcess>
}

/** Runs the built command line to its end. */
export async function run(options: SpawnOptions): Promise<FinishedProcess> {
  return spawnMain(await withDatabase(options)).exited
}

/** Starts the built service and waits until it logs its address: a free port unless `env` has one. */
export async function spawnService(options: SpawnOptions): Promise<SpawnedService> {
  const { keepsLog = true, env } = await withDatabase(options)
  const child = spawnMain({
    ...options,
    env: { PORT: '0', ALLOWED_HOSTS: '*', ...UNHURRIED, ...env },
  })
  const url = await new Promise<string>((resolve, reject) => {
    child.process.stdout?.on('data', () => {
      const match = /"url":"([^"]+)","docs"/.exec(child.stdout())
      if (match?.[1] !== undefined) resolve(match[1])
    })
    child.exited.then(({ code, stderr }) => reject(new Error(`exited with ${code}: ${stderr}`)))
  })
  if (!keepsLog) child.process.stdout?.removeAllListeners('data').resume()
  return { ...child, url, port: Number(new URL(url).port) }
}

/** What a command writes to standard error, without the lines of progress that come every five seconds on a busy machine. */
export function withoutProgress(stderr: string): string {
  return stderr.replaceAll(/^(?:\d+ %, )?[\d.,]+ [^,\n]+, [\d.,]+ [^,\n]+\/s(?:, .+ left)?\n/gm, '')
}

/** The lines of a log, parsed, without a last one that is not complete yet. */
export function linesOf(output: string): Record<string, unknown>[] {
  return (output.match(/.+\n/g) ?? []).map(line => JSON.parse(line))
}

/** On an engine without a default database: adds the one of the folder. */
export async function withDatabase<T extends SpawnOptions>(options: T): Promise<T> {
  const { cwd, env } = options
  if (engine === 'sqlite' || env?.DATABASE_URL !== undefined) return options
  return { ...options, env: { ...env, DATABASE_URL: await databaseIn(cwd) } }
}

/** Starts the built command line. */
export function spawnMain(options: SpawnOptions) {
  const { env = {}, cwd, args = [], nodeArgs = [], uid, gid, input } = options
  const { keepsInputOpen, outlivesTest, openFiles, stdoutTo, main = MAIN } = options
  const command = [process.execPath, ...nodeArgs, main, ...args]
  const limited = ['/bin/sh', '-c', `ulimit -n ${openFiles} && exec "$@"`, 'sh', ...command]
  const [program = '', ...rest] = openFiles === undefined ? command : limited
  const child = spawn(program, rest, {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: [
      input === undefined && !keepsInputOpen ? 'ignore' : 'pipe',
      stdoutTo ?? 'pipe',
      'pipe',
      ...(nodeArgs.length > 0 ? (['ipc'] as const) : []),
    ],
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
  })
  if (stdoutTo !== undefined) closeSync(stdoutTo)
  // The process may end before it has read all input.
  child.stdin?.on('error', () => {})
  if (!keepsInputOpen) child.stdin?.end(input)
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk
  })
  const exited = once(child, 'close').then(([code]) => ({
    code: code as number | null,
    stdout,
    stderr: withoutProgress(stderr),
  }))
  if (!outlivesTest) {
    onTestFinished(() => {
      child.kill('SIGKILL')
    })
  }
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return exited
  }
  return { process: child, stdout: () => stdout, exited, end }
}
