import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { RuleLine } from '../../../src/limits/rule-lines.ts'
import {
  createLinesOfWorkers,
  createSharedRuleLines,
} from '../../../src/limits/workers/shared-rule-lines.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { connectGatedCalls } from '../../support/gated-calls.ts'
import { until } from '../../support/until.ts'

const TRACKED: RuleLine = {
  level: 'info',
  message: 'request tracked',
  source: 'track one',
  most: 10,
}

function exceeded(key: string, resetsInMs = 60_000): RuleLine {
  const once = { key, resetsInMs }
  return { level: 'warn', message: 'limit exceeded', source: 'throttle one', most: 10, once }
}

/** The lines of two workers, and the log of their first process. */
function openTwo() {
  const clock = createFakeClock()
  const logLines: Record<string, unknown>[] = []
  const log = pino(
    { level: 'trace', base: null, timestamp: false },
    { write: line => logLines.push(JSON.parse(line)) },
  )
  const all = createLinesOfWorkers({
    logOf: worker => log.child({ worker }),
    monotonicNow: clock.now,
  })
  const [one, other] = [1, 2].map(number => {
    const { worker, first, end } = connectGatedCalls()
    onTestFinished(end)
    all.answer(first.calls, number)
    const lines = createSharedRuleLines({ firstProcess: worker.calls, monotonicNow: clock.now })
    return { ...lines, first, worker }
  }) as [Opened, Opened]
  return { clock, logLines, one, other }
}

type Opened = ReturnType<typeof createSharedRuleLines> & {
  readonly first: ReturnType<typeof connectGatedCalls>['first']
  readonly worker: ReturnType<typeof connectGatedCalls>['worker']
}

function write(lines: Opened, line: RuleLine, count = 1): void {
  for (let index = 0; index < count; index++) lines.write(line, () => ({ rule: 'one' }))
}

const leftOutOf = (lines: readonly Record<string, unknown>[]) => lines.map(line => line.leftOut)

test('a line is logged by the first process, with the number of the worker', async () => {
  const { logLines, one, other } = openTwo()
  write(one, TRACKED)
  await one.close()
  other.write({ ...TRACKED, level: 'warn' }, () => ({ client: 'Ann', dryRun: undefined }))
  await other.close()
  expect(logLines).toEqual([
    { level: 30, worker: 1, rule: 'one', msg: 'request tracked' },
    { level: 40, worker: 2, client: 'Ann', msg: 'request tracked' },
  ])
})

test('ten lines a second are logged for all workers together, and the next says how many were left out', async () => {
  const { clock, logLines, one, other } = openTwo()
  for (let round = 0; round < 5; round++) {
    write(one, TRACKED, 4)
    write(other, TRACKED, 3)
    await Promise.all([one.close(), other.close()])
  }
  expect(leftOutOf(logLines)).toEqual(Array(10).fill(undefined))
  clock.advance(999)
  write(other, TRACKED)
  await other.close()
  expect(logLines).toHaveLength(10)
  clock.advance(1)
  write(other, TRACKED)
  await other.close()
  expect(leftOutOf(logLines.slice(10))).toEqual([26])
  write(one, TRACKED, 12)
  await one.close()
  expect(logLines).toHaveLength(20)
  clock.advance(1000)
  write(one, TRACKED)
  await one.close()
  expect(leftOutOf(logLines.slice(11))).toEqual([...Array(9).fill(undefined), 3])
})

test('a burst within one turn is left out as well, and counted', async () => {
  const { clock, logLines, one } = openTwo()
  write(one, TRACKED, 5000)
  await one.close()
  expect(logLines).toHaveLength(10)
  clock.advance(1000)
  write(one, TRACKED)
  await one.close()
  expect(leftOutOf(logLines.slice(10))).toEqual([4990])
})

test('an answer that comes late does not hold back the lines of the next second', async () => {
  const { clock, logLines, one } = openTwo()
  write(one, TRACKED, 11)
  while (logLines.length < 10) await new Promise(setImmediate)
  clock.advance(1000)
  await one.close()
  write(one, TRACKED)
  await one.close()
  expect(leftOutOf(logLines.slice(10))).toEqual([1])
})

test('while no lines of a source are written, only their number is sent', async () => {
  const { one } = openTwo()
  for (let turn = 0; turn < 200; turn++) {
    write(one, TRACKED)
    await one.close()
  }
  expect(sentLines(one)).toBeLessThanOrEqual(11)
})

/** How many lines a worker has sent with their text. */
function sentLines({ first }: Opened): number {
  return first.received.join().split('"text"').length - 1
}

test('sources are throttled separately', async () => {
  const { logLines, one, other } = openTwo()
  write(one, TRACKED, 30)
  write(other, { ...TRACKED, source: 'track rare' })
  await Promise.all([one.close(), other.close()])
  expect(logLines).toHaveLength(11)
})

test('a line about a key is written once in its window, whichever worker is first', async () => {
  const { clock, logLines, one, other } = openTwo()
  for (const lines of [one, other, one, other]) {
    write(lines, exceeded('Ann'))
    write(lines, exceeded('Bob'))
    await lines.close()
  }
  expect(logLines).toHaveLength(2)
  clock.advance(60_000)
  write(other, exceeded('Ann'), 2)
  await other.close()
  write(one, exceeded('Ann'))
  await one.close()
  expect(logLines).toHaveLength(3)
})

test('a key that several workers leave out is left out once', async () => {
  const { clock, logLines, one, other } = openTwo()
  for (let index = 0; index < 14; index++) write(one, exceeded(`key ${index}`))
  await one.close()
  for (let index = 0; index < 15; index++) write(other, exceeded(`key ${index}`))
  await other.close()
  expect(logLines).toHaveLength(10)
  clock.advance(1000)
  write(one, exceeded('new'))
  await one.close()
  expect(leftOutOf(logLines.slice(10))).toEqual([5])
})

test('an error is logged as pino logs it', async () => {
  const { logLines, one } = openTwo()
  const cause = new Error('no such host')
  const err = Object.assign(new TypeError('broken', { cause }), { code: 'E1' })
  const line: RuleLine = { ...TRACKED, level: 'error', message: 'rule function failed' }
  one.write(line, () => ({ type: 'track', err }))
  await one.close()
  const direct: Record<string, unknown>[] = []
  const log = pino(
    { base: null, timestamp: false },
    { write: text => direct.push(JSON.parse(text)) },
  )
  log.child({ worker: 1 }).error({ type: 'track', err }, 'rule function failed')
  expect(logLines).toEqual(direct)
  expect(logLines[0]?.err).toMatchObject({ type: 'TypeError', code: 'E1' })
})

test.each<[string, unknown, unknown]>([
  ['a text', 'oops', 'oops'],
  ['nothing', undefined, undefined],
  ['null', null, null],
  ['a BigInt', Object.assign(new Error('big'), { big: 1n }), { type: 'Error', message: 'big' }],
  ['a circle', createCircle(), { type: 'Error', message: 'round' }],
])('what is thrown may be %s', async (_what, thrown, logged) => {
  const { logLines, one } = openTwo()
  one.write(TRACKED, () => ({ err: thrown }))
  await one.close()
  if (logged instanceof Object) expect(logLines[0]?.err).toMatchObject(logged)
  else expect(logLines[0]?.err).toEqual(logged)
})

function createCircle(): Error {
  const error = Object.assign(new Error('round'), { self: {} })
  error.self = { error: { error } }
  return error
}

test('little is kept while the first process is stopped, and nothing is lost', async () => {
  const { clock, logLines, one } = openTwo()
  one.first.stop()
  for (let index = 0; index < 20_000; index++) write(one, exceeded(`key ${index}`))
  write(one, TRACKED, 20_000)
  await one.close()
  expect(logLines).toEqual([])
  one.first.goOn()
  await until(() => (logLines.length === 20 ? true : undefined))
  expect(sentLines(one)).toBe(20)
  // Until all answers have come, the worker takes its lines for unanswered, and leaves further ones out.
  await until(() => one.worker.received.length === one.first.received.length)
  clock.advance(1000)
  write(one, exceeded('new'))
  write(one, TRACKED)
  await until(() => (logLines.length === 22 ? true : undefined))
  expect(leftOutOf(logLines.slice(20))).toEqual([19_990, 19_990])
})
