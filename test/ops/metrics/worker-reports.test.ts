import { expect, onTestFinished, test } from 'vitest'
import { totalOf } from '../../../src/metrics/histogram.ts'
import type { ServiceReport } from '../../../src/ops/metrics/service-report.ts'
import { createWorkerReports, sendReports } from '../../../src/ops/metrics/worker-reports.ts'
import { connectGatedCalls } from '../../support/gated-calls.ts'
import { PROCESS_USE, reportOf } from '../../support/process-reports.ts'
import { until } from '../../support/until.ts'

function open() {
  const failures: unknown[] = []
  const reports = createWorkerReports({
    readFirst: async () => ({ engine: 'sqlite', process: PROCESS_USE }),
    onFailure: error => failures.push(error),
  })
  onTestFinished(reports.close)
  return { reports, failures }
}

type Reports = ReturnType<typeof open>['reports']

/** A worker that reports what its `counted` says. */
async function join(reports: Reports, number: number, rules: readonly string[] = []) {
  const { worker, first, end } = connectGatedCalls()
  onTestFinished(end)
  const counted = { requests: 0, rules }
  reports.answer(first.calls, number)
  const reporting = sendReports(worker.calls, async () => reportOf(counted.requests, counted.rules))
  await until(() => first.received.length > 0)
  const kill = () => {
    end()
    reports.remove(number)
  }
  return { ...worker, first, counted, kill, sendLast: reporting.sendLast }
}

function requestsIn({ requests }: ServiceReport): number {
  return requests.series.reduce((sum, { seconds }) => sum + totalOf(seconds), 0)
}

function workersIn({ processes }: ServiceReport): number[] {
  return processes.map(({ worker }) => worker)
}

test('report adds up all workers', async () => {
  const { reports } = open()
  const [one, two] = [await join(reports, 1), await join(reports, 2)]
  one.counted.requests = 3
  two.counted.requests = 4
  const report = await reports.report()
  expect(requestsIn(report)).toBe(7)
  expect(report.server.connections).toBe(2)
  expect(workersIn(report)).toEqual([0, 1, 2])
})

test('report has what was counted before it, also while another one is being made', async () => {
  const { reports } = open()
  const [one, two] = [await join(reports, 1), await join(reports, 2)]
  two.stop()
  const earlier = reports.report()
  await until(() => one.received.length > 0 && two.received.length > 0)
  one.counted.requests = 1
  const later = reports.report()
  // It shares the next question to the workers.
  expect(reports.report()).toBe(later)
  two.goOn()
  await earlier
  expect(requestsIn(await later)).toBe(1)
})

test('report has the last report of a worker that is stopped, which is asked once', async () => {
  const { reports } = open()
  const [one, two] = [await join(reports, 1), await join(reports, 2)]
  one.counted.requests = 1
  two.counted.requests = 10
  await reports.report()
  two.stop()
  one.counted.requests = 2
  two.counted.requests = 20
  const asked = two.received.length
  expect(requestsIn(await reports.report())).toBe(12)
  expect(requestsIn(await reports.report())).toBe(12)
  expect(two.received).toHaveLength(asked + 1)
  two.goOn()
  await until(async () => requestsIn(await reports.report()) === 22)
})

test('report leaves a worker out that does not serve yet', async () => {
  const { reports } = open()
  const { first } = connectGatedCalls()
  reports.answer(first.calls, 1)
  const report = await reports.report()
  expect(workersIn(report)).toEqual([0])
  expect(report.isStorageUp).toBe(false)
})

test('what a worker has counted stays when it is killed, and its replacement adds to it', async () => {
  const { reports } = open()
  const [one, two] = [await join(reports, 1), await join(reports, 2)]
  one.counted.requests = 1
  two.counted.requests = 10
  await reports.report()
  two.kill()
  const report = await reports.report()
  expect(requestsIn(report)).toBe(11)
  expect(workersIn(report)).toEqual([0, 1])
  const replacement = await join(reports, 2)
  replacement.counted.requests = 100
  expect(requestsIn(await reports.report())).toBe(111)
  replacement.kill()
  one.kill()
  expect(requestsIn(await reports.report())).toBe(111)
})

test('workers are asked from time to time, so that little is lost when one is killed', async () => {
  const { reports } = open()
  const worker = await join(reports, 1)
  worker.counted.requests = 5
  await until(() => worker.received.length > 1)
  worker.stop()
  worker.kill()
  expect(requestsIn(await reports.report())).toBe(5)
})

test('what a worker counts until it stops in good order is counted, once', async () => {
  const { reports } = open()
  const worker = await join(reports, 1)
  worker.counted.requests = 5
  await reports.report()
  worker.counted.requests = 7
  await worker.sendLast()
  // Nothing that it says later counts.
  worker.counted.requests = 6
  expect(requestsIn(await reports.report())).toBe(7)
  worker.kill()
  expect(requestsIn(await reports.report())).toBe(7)
})

test('a worker ends although the first process is stopped', async () => {
  const { reports } = open()
  const worker = await join(reports, 1)
  worker.first.stop()
  await worker.sendLast()
})

function rulesIn({ limits }: ServiceReport) {
  return limits?.rules.map(({ rule, refused }) => `${rule} ${refused}`)
}

test('a rule that went is forgotten; the others keep the counts of workers that ended', async () => {
  const { reports } = open()
  const one = await join(reports, 1, ['kept', 'went'])
  const two = await join(reports, 2, ['kept', 'went'])
  one.counted.requests = 1
  two.counted.requests = 10
  await reports.report()
  two.kill()
  expect(rulesIn(await reports.report())).toEqual(['kept 11', 'went 11'])
  one.counted.rules = ['came', 'kept']
  expect(rulesIn(await reports.report())).toEqual(['came 1', 'kept 11'])
  one.counted.rules = ['went', 'kept']
  expect(rulesIn(await reports.report())).toEqual(['went 1', 'kept 11'])
  one.kill()
  expect(rulesIn(await reports.report())).toEqual(['went 1', 'kept 11'])
})

test('report rejects when a worker cannot report', async () => {
  const { reports, failures } = open()
  const { worker, first, end } = connectGatedCalls()
  onTestFinished(end)
  reports.answer(first.calls, 1)
  sendReports(worker.calls, async () => {
    throw new Error('no report')
  })
  await until(() => first.received.length > 0)
  await expect(reports.report()).rejects.toThrow('no report')
  await until(() => failures.length > 1)
})
