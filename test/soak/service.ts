import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cleanUpAfter } from '../support/clean-up-after.ts'
import { findFreePort } from '../support/free-port.ts'
import type { Metrics } from '../support/metrics-text.ts'
import { until } from '../support/until.ts'
import { add, type Tally } from './tally.ts'

/** One life of a service, from a start to its end. Its counts begin at 0. */
export interface Life {
  readonly service: string
  readonly number: number
  /** Answers that clients got, by method, route and status. */
  readonly answered: Tally
  /** Request lines of its log, by method and status. */
  readonly logged: Tally
  /** Requests that got no answer. */
  unanswered: number
  /** Answers by second, to bound the log lines that a kill may have taken with it. */
  readonly perSecond: Map<number, number>
  /** How many log lines a kill may have lost. */
  maxLost: number
  metrics: Metrics | undefined
  scrapes: number
  exitCode: number | null | undefined
}

export interface Service {
  readonly name: string
  readonly port: number
  readonly managementUrl: string
  readonly lives: Life[]
  /** Log lines of level error or fatal. */
  readonly lines: { readonly life: Life; readonly at: number; readonly line: LogLine }[]
  /** Log lines of level warn by message, over all lives. */
  readonly warnings: Tally
  /** When its log last said that a process counts limits by itself. */
  countedLocallyAt(): number
  life(): Life
  isRunning(): boolean
  /** Resolves when it serves. */
  start(): Promise<void>
  /** Sends SIGTERM and resolves with the exit code. */
  stop(): Promise<number | null>
  /** Sends SIGKILL and resolves when it has ended. */
  kill(): Promise<void>
  reload(): void
  pid(): number
}

export type LogLine = Readonly<Record<string, unknown>>

export interface ServiceOptions {
  readonly name: string
  readonly main: string
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

const KEPT = new Set(['error', 'fatal'])

/** The ports stay the same over all its lives. */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { name, main, cwd, env } = options
  const port = await findFreePort()
  const managementPort = await findFreePort()
  const lives: Life[] = []
  const listening = new Set<Life>()
  const warnings: Tally = new Map()
  const lines: { life: Life; at: number; line: LogLine }[] = []
  let countedLocallyAt = 0
  let child: ChildProcess | undefined
  let exited: Promise<number | null> = Promise.resolve(null)

  function life(): Life {
    const latest = lives.at(-1)
    if (latest === undefined) throw new Error('it was never started')
    return latest
  }

  function read(of: Life, text: string): void {
    let line: LogLine
    try {
      line = JSON.parse(text)
    } catch {
      line = { level: 'error', msg: `no JSON in the log: ${text}` }
    }
    if (line.msg === 'request') add(of.logged, `${line.method} ${line.status ?? 0}`)
    else if (line.msg === 'listening') listening.add(of)
    else if (KEPT.has(String(line.level))) lines.push({ life: of, at: Date.now(), line })
    else if (line.level === 'warn') {
      add(warnings, String(line.msg))
      if (String(line.msg).endsWith('counted locally')) countedLocallyAt = Date.now()
    }
  }

  async function start(): Promise<void> {
    const current: Life = {
      ...{ service: name, number: lives.length + 1, answered: new Map() },
      ...{ logged: new Map(), unanswered: 0, perSecond: new Map(), maxLost: 0 },
      ...{ metrics: undefined, scrapes: 0, exitCode: undefined },
    }
    lives.push(current)
    const running = spawn(process.execPath, [main], {
      cwd,
      env: {
        ...{ PATH: process.env.PATH, HOME: process.env.HOME, PORT: String(port) },
        ...{ MANAGEMENT_PORT: String(managementPort), ...env },
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Ctrl-C is for the soak, which then stops it.
      detached: true,
    })
    child = running
    const end = cleanUpAfter('cat > /dev/null; kill -KILL "$1"', String(running.pid))
    eachLine(running, text => read(current, text))
    exited = once(running, 'close').then(([code]) => {
      end()
      current.exitCode = code as number | null
      return code as number | null
    })
    await until(() => {
      if (running.exitCode !== null) throw new Error(`${name} ended with ${running.exitCode}`)
      return listening.has(current)
    })
  }

  return {
    name,
    port,
    managementUrl: `http://127.0.0.1:${managementPort}`,
    lives,
    lines,
    warnings,
    countedLocallyAt: () => countedLocallyAt,
    life,
    isRunning: () => child !== undefined && child.exitCode === null && child.signalCode === null,
    start,
    stop: () => {
      child?.kill('SIGTERM')
      return exited
    },
    reload: () => {
      child?.kill('SIGHUP')
    },
    kill: async () => {
      child?.kill('SIGKILL')
      await exited
    },
    pid: () => Number(child?.pid),
  }
}

function eachLine(child: ChildProcess, pass: (text: string) => void): void {
  for (const stream of [child.stdout, child.stderr]) {
    let rest = ''
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (rest + chunk).split('\n')
      rest = parts.pop() ?? ''
      for (const part of parts) pass(part)
    })
  }
}
