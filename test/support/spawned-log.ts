import { connect } from 'node:net'
import pino from 'pino'
import type { SpawnedService } from './spawn-service.ts'
import { until } from './until.ts'

type LogLine = Record<string, unknown>

/** The log of a service in processes of its own, in the form that it has inside a test process. */
export interface SpawnedLog {
  /** Without what only processes log. */
  readonly lines: LogLine[]
  /** Resolves once `lines` has everything that all workers have logged so far, in the order of time. */
  complete(): Promise<void>
}

/** What only a service in processes of its own logs. */
const OF_PROCESSES = ['starting', 'listening', 'worker serves', 'stopping', 'stopped']

/** The prefix of the ids of requests that show how far the log has come. They are not among the lines. */
const MARK = 'log-mark-'

export function followLog(service: SpawnedService, workers: number): SpawnedLog {
  const lines: LogLine[] = []
  const workerOfMark = new Map<string, unknown>()
  let isOver = false
  let rest = ''
  let serial = 0

  function read(text: string): void {
    const whole = `${rest}${text}`.split('\n')
    rest = whole.pop() ?? ''
    for (const { worker, ...line } of whole.map(parseLine)) {
      const id = String(line.requestId)
      if (id.startsWith(MARK)) workerOfMark.set(id, worker)
      else if (!OF_PROCESSES.includes(String(line.msg))) lines.push(line)
    }
  }

  read(service.stdout())
  service.process.stdout?.on('data', chunk => read(String(chunk)))
  service.exited.then(() => {
    isOver = true
  })

  return {
    lines,
    // Asks until each worker has answered: what it has logged before is in the log then. One process has no number.
    complete: async () => {
      const answered = new Set<unknown>()
      while (!isOver && answered.size < workers && !answered.has(undefined)) {
        const ids = Array.from({ length: 2 * workers }, () => `${MARK}${++serial}`)
        await Promise.all(ids.map(id => sendMark(service.port, id)))
        await until(() => isOver || ids.every(id => workerOfMark.has(id)))
        for (const id of ids) answered.add(workerOfMark.get(id))
      }
      lines.sort((one, other) => Number(one.time) - Number(other.time))
    },
  }
}

/** With levels and times as numbers. */
function parseLine(text: string): LogLine {
  const line = JSON.parse(text)
  return { ...line, level: pino.levels.values[line.level], time: Date.parse(line.time) }
}

/** Asks on a new connection, so that any worker may answer. */
function sendMark(port: number, id: string): Promise<void> {
  const head = [
    'GET /livez HTTP/1.1',
    'Host: localhost',
    `X-Request-Id: ${id}`,
    'Connection: close',
  ]
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {}).on('close', () => resolve())
    socket.resume().end(`${head.join('\r\n')}\r\n\r\n`)
  })
}
