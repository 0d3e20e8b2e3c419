import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

export const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

export interface SpawnOptions {
  /** Added to PATH and HOME only: settings of the machine do not reach the test. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd: string
  readonly args?: readonly string[]
  /** Options of Node itself; with them the process has a channel for messages. */
  readonly nodeArgs?: readonly string[]
  /** Whether what it prints is kept after its start; a long load prints more than there is room for. */
  readonly keepsLog?: boolean
  /** Who runs it, where that is not who runs the test. */
  readonly uid?: number
  readonly gid?: number
  /** What it reads on standard input, which is otherwise empty. */
  readonly input?: string | Buffer
  /** Whether standard input stays open for the test to write to. */
  readonly keepsInputOpen?: boolean
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
  /** What it has printed so far. */
  stdout(): string
  readonly exited: Promise<FinishedProcess>
}

/** The built command line, run to its end. */
export function run(options: SpawnOptions): Promise<FinishedProcess> {
  return spawnMain(options).exited
}

/** The built service, once it says where it listens: on a free port unless `env` says otherwise. */
export async function spawnService(options: SpawnOptions): Promise<SpawnedService> {
  const { keepsLog = true, env } = options
  const child = spawnMain({ ...options, env: { PORT: '0', ...env } })
  const url = await new Promise<string>((resolve, reject) => {
    child.process.stdout?.on('data', () => {
      const match = /"url":"([^"]+)"/.exec(child.stdout())
      if (match?.[1] !== undefined) resolve(match[1])
    })
    child.exited.then(({ code, stderr }) => reject(new Error(`exited with ${code}: ${stderr}`)))
  })
  if (!keepsLog) child.process.stdout?.removeAllListeners('data').resume()
  return { ...child, url, port: Number(new URL(url).port) }
}

/** After `kill -9`, on what is then there, without what `env` was. */
export async function killAndStartAgain({
  cwd,
  service,
}: {
  readonly cwd: string
  readonly service: SpawnedService
}): Promise<SpawnedService> {
  service.process.kill('SIGKILL')
  await service.exited
  return spawnService({ cwd })
}

/** The built command line, begun. */
export function spawnMain(options: SpawnOptions) {
  const { env = {}, cwd, args = [], nodeArgs = [], uid, gid, input } = options
  const { keepsInputOpen = false } = options
  const child = spawn(process.execPath, [...nodeArgs, MAIN, ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: [
      input === undefined && !keepsInputOpen ? 'ignore' : 'pipe',
      'pipe',
      'pipe',
      ...(nodeArgs.length > 0 ? (['ipc'] as const) : []),
    ],
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
  })
  // It may end before it has read all.
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
    stderr,
  }))
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  return { process: child, stdout: () => stdout, exited }
}
