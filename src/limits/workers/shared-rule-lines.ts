import pino, { type Logger } from 'pino'
import { createPatientWaits } from '../../waiting/patient-waits.ts'
import type { CallKind, Calls } from '../../workers/calls.ts'
import {
  createLineThrottle,
  createOncePerWindow,
  type RuleLine,
  type RuleLines,
} from '../rule-lines.ts'

/** A line, or the number of lines that a worker has left out. */
interface SentLine extends Omit<RuleLine, 'level' | 'message'> {
  /** Only in a line that may be written. */
  readonly text?: Pick<RuleLine, 'level' | 'message'> & { readonly fields: object }
  /** How many lines are left out if this is only their number. */
  count?: number
}

/** A source of which no line will be written for some time. */
type Closed = readonly [source: string, forMs: number]

const WRITE_LINES: CallKind<readonly SentLine[], readonly Closed[]> = { name: 'rule lines' }

/** How long `close` waits for the first process. */
const CLOSE_PATIENCE_MS = 200

/** The most lines that wait for the first process, those about keys that are left out among them. */
const MAX_WAITING = 1000

export interface SharedRuleLinesOptions {
  readonly firstProcess: Calls
  readonly monotonicNow: () => number
}

/**
 * Lines of a worker. The first process writes them, because it knows those of all workers. A worker sends no repeated lines,
 * and while the first process writes no lines of a source, it sends only their number. One call at a time, so that little
 * waits here while the first process is busy.
 */
export function createSharedRuleLines(options: SharedRuleLinesOptions): RuleLines {
  const { firstProcess, monotonicNow } = options
  const isFirstInWindow = createOncePerWindow(monotonicNow)
  const closedUntil = new Map<string, number>()
  /** Lines with a text that wait or are being sent, by source. */
  const unanswered = new Map<string, number>()
  /** What is left out without a key of its own, by source; part of `waiting`. */
  const leftOut = new Map<string, { count?: number }>()
  let waiting: SentLine[] = []
  let sending: Promise<void> | undefined

  function isClosed(source: string, most: number): boolean {
    if ((unanswered.get(source) ?? 0) >= most) return true
    const until = closedUntil.get(source)
    return until !== undefined && until > monotonicNow()
  }

  function leaveOut({ source, most, once }: Pick<RuleLine, 'source' | 'most' | 'once'>): void {
    // The key tells the first process whether another worker has sent this line.
    if (once !== undefined && waiting.length < MAX_WAITING) {
      waiting.push({ source, most, once, count: 1 })
      return
    }
    const known = leftOut.get(source)
    if (known !== undefined) {
      known.count = (known.count ?? 0) + 1
      return
    }
    const line = { source, most, count: 1 }
    leftOut.set(source, line)
    waiting.push(line)
  }

  async function send(): Promise<void> {
    const lines = waiting
    waiting = []
    leftOut.clear()
    // Not the time of the answer: this process must not leave out what the first process would write.
    const askedAt = monotonicNow()
    try {
      const closed = await firstProcess.ask(WRITE_LINES, lines)
      for (const [source, forMs] of closed) closedUntil.set(source, askedAt + forMs)
    } catch {
      // The first process is gone, and this one will end.
    }
    for (const { source, text } of lines) {
      if (text !== undefined) unanswered.set(source, (unanswered.get(source) ?? 1) - 1)
    }
  }

  function sendAll(): void {
    sending ??= (async () => {
      while (waiting.length > 0) await send()
      sending = undefined
    })()
  }

  return {
    write: ({ level, message, source, most, once }, fieldsOf) => {
      if (once !== undefined && !isFirstInWindow(once)) return
      const line = once === undefined ? { source, most } : { source, most, once }
      if (isClosed(source, most)) leaveOut(line)
      else {
        unanswered.set(source, (unanswered.get(source) ?? 0) + 1)
        waiting.push({ ...line, text: { level, message, fields: plainFields(fieldsOf()) } })
      }
      sendAll()
    },

    close: async () => {
      if (sending === undefined) return
      await createPatientWaits(CLOSE_PATIENCE_MS).wait(sending, undefined)
    },
  }
}

/** The fields of a line as JSON has them. An error becomes what pino writes of it. */
function plainFields(fields: object): object {
  if (!('err' in fields)) return fields
  const { err, ...others } = fields
  return { ...others, err: plainError(err) }
}

function plainError(error: unknown): unknown {
  const serialized = pino.stdSerializers.err(error as Error)
  try {
    const text = JSON.stringify(serialized)
    return text && JSON.parse(text)
  } catch {
    // It refers to itself, or has a BigInt.
    const { type, message, stack } = Object(serialized) as Partial<Record<string, unknown>>
    return { type: String(type), message: String(message), stack: String(stack) }
  }
}

export interface LinesOfWorkersOptions {
  readonly logOf: (worker: number) => Logger
  readonly monotonicNow: () => number
}

/** In the first process: writes the lines of all workers as a process that serves alone would write them. */
export interface LinesOfWorkers {
  /** Handles the lines of a worker. */
  answer(calls: Calls, worker: number): void
}

export function createLinesOfWorkers(options: LinesOfWorkersOptions): LinesOfWorkers {
  const { logOf, monotonicNow } = options
  const throttle = createLineThrottle(monotonicNow)
  const isFirstInWindow = createOncePerWindow(monotonicNow)

  function write({ source, most, once, text, count = 1 }: SentLine, workerLog: Logger): void {
    if (once !== undefined && !isFirstInWindow(once)) return
    if (text === undefined) {
      throttle.leaveOut(source, count)
      return
    }
    const { level, message, fields } = text
    throttle.write(source, most, leftOut => workerLog[level]({ ...fields, leftOut }, message))
  }

  return {
    answer: (calls, worker) => {
      // The worker has serialized its errors.
      const workerLog = logOf(worker).child({}, { serializers: { err: error => error } })
      calls.handle(WRITE_LINES, lines => {
        for (const line of lines) write(line, workerLog)
        const mostBySource = new Map(lines.map(({ source, most }) => [source, most]))
        return [...mostBySource]
          .map(([source, most]) => [source, throttle.closedForMs(source, most)] as const)
          .filter(([, forMs]) => forMs > 0)
      })
    },
  }
}
