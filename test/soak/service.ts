import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { cleanUpAfter } from '../support/clean-up-after.ts'
import { findFreePort } from '../support/free-port.ts'
import type { Metrics } from '../support/metrics-text.ts'
import { until } from '../support/until.ts'
import { add, type Tally } from './tally.ts'

export const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** One life of a service, from a start to its end. Its counts begin at 0. */
export interface Life {
  readonly service: string
  readonly number: number
  /** Answers that clients got, by method, route and status. */
  readonly answered: Tally
  /** Request lines of its log, by method and status. */
  readonly logged: Tally
  /** Answers by second, to bound the log lines that a kill may have taken with it. */
  readonly perSecond: Tally
  isListening: boolean
  /** Requests that got no answer. */
  unanswered: number
  /** How many log lines a kill may have lost. */
  maxLost: number
  metrics: Metrics | undefined
}

type LogLine = Readonly<Record<string, unknown>>

interface ServiceOptions {
  readonly name: string
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

export type Service = Awaited<ReturnType<typeof createService>>

/** A service that can be started again and again. Its ports stay the same over all its lives. */
export async function createService({ name, cwd, env }: ServiceOptions) {
  const port = await findFreePort()
  const managementPort = await findFreePort()
  const lives: Life[] = []
  const warnings: Tally = new Map()
  const errors: { readonly at: number; readonly line: LogLine }[] = []
  let countedLocallyAt = 0
  let child: ChildProcess | undefined
  let exited: Promise<number | null> = Promise.resolve(null)

  function life(): Life {
    const latest = lives.at(-1)
    if (latest === undefined) throw new Error('it was never started')
    return latest
  }

  function read(of: Life, text: string): void {
    const line = parse(text)
    if (line.msg === 'request') add(of.logged, `${line.method} ${line.status ?? 0}`)
    else if (line.msg === 'listening') of.isListening = true
    else if (line.level === 'error' || line.level === 'fatal') errors.push({ at: Date.now(), line })
    else if (line.level === 'warn') {
      add(warnings, String(line.msg))
      if (String(line.msg).endsWith('counted locally')) countedLocallyAt = Date.now()
    }
  }

  /** Resolves when it serves. */
  async function start(): Promise<void> {
    const current: Life = {
      ...{ service: name, number: lives.length + 1, isListening: false, metrics: undefined },
      ...{ answered: new Map(), logged: new Map(), perSecond: new Map() },
      ...{ unanswered: 0, maxLost: 0 },
    }
    lives.push(current)
    const { PATH, HOME } = process.env
    const ports = { PORT: String(port), MANAGEMENT_PORT: String(managementPort) }
    const running = spawn(process.execPath, [MAIN], {
      cwd,
      env: { PATH, HOME, ...ports, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Ctrl-C is for the soak, which then stops it.
      detached: true,
    })
    child = running
    const end = cleanUpAfter('cat > /dev/null; kill -KILL "$1"', String(running.pid))
    for (const input of [running.stdout, running.stderr]) {
      createInterface({ input }).on('line', text => read(current, text))
    }
    exited = once(running, 'close').then(([code]) => {
      end()
      return code as number | null
    })
    await until(() => {
      if (running.exitCode !== null) throw new Error(`${name} ended with ${running.exitCode}`)
      return current.isListening
    })
  }

  /** Resolves with its exit code. */
  function stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<number | null> {
    child?.kill(signal)
    return exited
  }

  return {
    ...{ name, port, lives, life, start, stop },
    managementUrl: `http://127.0.0.1:${managementPort}`,
    /** Log lines of level error or fatal. */
    errors,
    /** Log lines of level warn by message, over all lives. */
    warnings,
    /** When its log last said that a process counts limits by itself. */
    countedLocallyAt: () => countedLocallyAt,
    reload: () => child?.kill('SIGHUP'),
    pid: () => Number(child?.pid),
  }
}

function parse(text: string): LogLine {
  try {
    return JSON.parse(text)
  } catch {
    return { level: 'error', msg: `no JSON in the log: ${text}` }
  }
}
