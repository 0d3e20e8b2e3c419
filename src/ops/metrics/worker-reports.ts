import { withinPatience } from '../../waiting/patience.ts'
import { createPatientWaits } from '../../waiting/patient-waits.ts'
import type { CallKind, Calls } from '../../workers/calls.ts'
import { addCounted, type Counted, countedBy, NOTHING_COUNTED } from './counted.ts'
import { type FirstProcess, mergeReports, type NumberedReport } from './merge-reports.ts'
import type { ProcessReport } from './process-report.ts'
import type { ServiceReport } from './service-report.ts'

/** A worker is about to serve, and answers `REPORT` from now on. */
const JOIN_REPORTS: CallKind<null, void> = { name: 'join reports' }

const REPORT: CallKind<null, ProcessReport> = { name: 'report' }

/** What a worker has counted when it stops. */
const LAST_REPORT: CallKind<ProcessReport, void> = { name: 'last report' }

/** A worker that takes longer is stopped, and a scrape does not wait for it. */
const PATIENCE_MS = 1000

/** A worker that is killed loses what it counted since. */
const COLLECT_EVERY_MS = 2000

export interface WorkerReportsOptions {
  /** What the first process knows by itself. */
  readonly readFirst: () => Promise<Omit<FirstProcess, 'ended'>>
  /** Called when a collection fails that nobody has asked for. */
  readonly onFailure: (error: unknown) => void
}

/**
 * In the first process: the reports of all workers.
 *
 * A worker that does not answer takes part with its last report. What a worker has counted stays when it ends, so that no
 * count decreases: a worker that stops in good order sends all of it. What one that is killed has counted since the last
 * collection, at most two seconds before, is lost.
 */
export interface WorkerReports {
  /** Handles the calls of a worker that has just been started. */
  answer(calls: Calls, worker: number): void
  /** Call it when a worker has ended and its calls are closed. */
  remove(worker: number): void
  /** Has everything that was counted before this call. Calls that wait share one question to the workers. */
  report(): Promise<ServiceReport>
  /** Ends the collections that nobody asks for. */
  close(): void
}

interface Member {
  readonly worker: number
  readonly calls: Calls
  last?: NumberedReport
  /** It has been asked and has not answered yet. */
  isAsked: boolean
  /** `last` is its last report. */
  hasStopped: boolean
}

export function createWorkerReports(options: WorkerReportsOptions): WorkerReports {
  const members = new Map<number, Member>()
  let ended: Counted = NOTHING_COUNTED
  let lastLimits: ServiceReport['limits']
  let isClosed = false
  const collect = shareNext(async () => {
    const begunAt = performance.now()
    try {
      const [first] = await Promise.all([options.readFirst(), ...[...members.values()].map(ask)])
      return merge(first, begunAt)
    } finally {
      timer.refresh()
    }
  })
  const timer = setTimeout(() => {
    if (!isClosed) collect().catch(options.onFailure)
  }, COLLECT_EVERY_MS).unref()

  function merge(first: Omit<FirstProcess, 'ended'>, begunAt: number): ServiceReport {
    const reports = [...members.values()].flatMap(({ last }) => last ?? [])
    const merged = mergeReports(reports, { ...first, ended })
    const isCurrent = reports.some(({ at = 0 }) => at >= begunAt)
    if (isCurrent) forgetRulesThatWent(merged)
    // While no worker serves, the rules are those of the last that did.
    lastLimits = merged.limits ?? lastLimits
    return lastLimits === undefined ? merged : { ...merged, limits: lastLimits }
  }

  /** A rule that comes back begins anew, as it does in the workers. */
  function forgetRulesThatWent({ limits }: ServiceReport): void {
    const isInForce = ({ type, rule }: Counted['rules'][number]) =>
      limits?.rules.some(other => other.type === type && other.rule === rule)
    ended = { ...ended, rules: ended.rules.filter(isInForce) }
  }

  return {
    answer: (calls, worker) => {
      const member: Member = { worker, calls, isAsked: false, hasStopped: false }
      calls.handle(JOIN_REPORTS, () => void members.set(worker, member))
      calls.handle(LAST_REPORT, report => {
        take(member, report)
        member.hasStopped = true
      })
    },

    remove: worker => {
      const last = members.get(worker)?.last
      members.delete(worker)
      if (last !== undefined) ended = addCounted([ended, countedBy(last.report)])
    },

    report: collect,

    close: () => {
      isClosed = true
      clearTimeout(timer)
    },
  }
}

/** Asks a worker for its report, which is `last` afterwards. One that is stopped is asked again only once it has answered. */
async function ask(member: Member): Promise<void> {
  if (member.isAsked || member.hasStopped) return
  member.isAsked = true
  const answered = askAndTake(member)
  // Whether it fails is seen below, unless that is too late.
  answered.catch(() => {})
  try {
    await withinPatience(PATIENCE_MS, answered)
  } catch (error) {
    if (member.isAsked || member.calls.isClosed()) return
    throw error
  }
}

async function askAndTake(member: Member): Promise<void> {
  try {
    const report = await member.calls.ask(REPORT, null)
    if (!member.hasStopped) take(member, report)
  } finally {
    member.isAsked = false
  }
}

function take(member: Member, report: ProcessReport): void {
  member.last = { worker: member.worker, report, at: performance.now() }
}

/**
 * Runs `work` for all calls that come before it begins. A call that comes while it runs waits for the next run, so that it
 * gets nothing older than itself.
 */
function shareNext<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | undefined

  async function runNext(): Promise<T> {
    await running.catch(() => {})
    next = undefined
    const result = work()
    running = result
    return result
  }

  return () => {
    next ??= runNext()
    return next
  }
}

/** The side of a worker. */
export interface ReportingWorker {
  /** Sends all that this process has counted. Call it when it no longer serves. */
  sendLast(): Promise<void>
}

/** In a worker, before it serves: answers the first process with its reports. */
export function sendReports(
  firstProcess: Calls,
  report: () => Promise<ProcessReport>,
): ReportingWorker {
  firstProcess.handle(REPORT, report)
  firstProcess.tell(JOIN_REPORTS, null)
  return {
    sendLast: async () => {
      const sent = firstProcess.ask(LAST_REPORT, await report())
      // A first process that is stopped must not keep this one.
      await createPatientWaits(PATIENCE_MS).wait(sent, undefined)
    },
  }
}
