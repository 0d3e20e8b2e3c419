import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { writeFileSync } from 'node:fs'
import type { Test } from 'supertest'
import { onTestFinished } from 'vitest'
import { CHANNEL_NAME, type Notice } from '../../src/limits/rule-in-force.ts'
import { createFakeClock } from './fake-clock.ts'
import { type AtEnd, openTestApp, type TestAppOptions } from './open-test-app.ts'
import { share } from './shared-app.ts'
import { until } from './until.ts'

export const ANN = '198.51.100.1'
export const BOB = '198.51.100.2'

export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** The client that sends a request by its address, or the headers of a request of ANN. */
export type From = string | Readonly<Record<string, string>>

type LogLine = Record<string, unknown>

export type LimitedApp = Awaited<ReturnType<typeof openLimitedApp>>

/** A service behind a proxy, so that X-Forwarded-For names the client, with a clock that stands still. */
export async function openLimitedApp(
  limits: object | string,
  { env, ...options }: TestAppOptions = {},
  atEnd: AtEnd = onTestFinished,
) {
  const clock = createFakeClock()
  const app = await openTestApp(
    { limits: codeOf(limits), env: { TRUST_PROXY: '1', ...env }, now: clock.now, ...options },
    atEnd,
  )
  const { http, logLines, port } = app
  /** What was published about requests to this service. */
  const notices: Notice[] = []
  const listen = (message: unknown) => {
    const notice = message as Notice
    if (notice.request.socket.localPort === port) notices.push(notice)
  }
  subscribe(CHANNEL_NAME, listen)
  atEnd(() => {
    unsubscribe(CHANNEL_NAME, listen)
  })
  let serial = 0

  /** Sends a request such as `GET /users`. Follows no redirect. */
  function ask(line: string, from: From = {}): Test {
    const [method = '', path = ''] = line.split(' ')
    const headers = typeof from === 'string' ? { 'X-Forwarded-For': from } : from
    const request = http[method.toLowerCase() as 'get'](path).redirects(0)
    return request.set({ 'X-Forwarded-For': ANN, ...headers })
  }

  async function statusOf(line: string, from?: From): Promise<number> {
    return (await ask(line, from)).status
  }

  /** The statuses of equal requests, one after the other. */
  async function statuses(count: number, line: string, from?: From): Promise<number[]> {
    const found = []
    for (let index = 0; index < count; index++) found.push(await statusOf(line, from))
    return found
  }

  function linesOf(message: string): LogLine[] {
    return logLines.filter(({ msg }) => msg === message)
  }

  /** The log line of a request, which is written when its response is closed. */
  async function lineOf(line: string, from?: From): Promise<LogLine> {
    const requestId = `request-${++serial}`
    await ask(line, from).set('X-Request-Id', requestId)
    return until(() => linesOf('request').find(found => found.requestId === requestId))
  }

  /** Replaces the rules: an object, or the code of one. */
  async function change(changed: object | string): Promise<void> {
    writeFileSync(app.limitsPath, `export default ${codeOf(changed)}`)
    await app.reloadLimits()
  }

  /** Puts these rules in force a day later, with all counts, numbers and the log as after a start. */
  async function startOver(changed: object | string): Promise<void> {
    clock.advance(DAY)
    await change({})
    await change(changed)
    logLines.length = 0
    notices.length = 0
  }

  return {
    ...app,
    ...{ clock, notices, ask, statusOf, statuses, linesOf, lineOf, change, startOver },
    /** The rules of the lines about tracked requests. */
    trackedRules: () => linesOf('request tracked').map(({ rule }) => rule),
  }
}

function codeOf(limits: object | string): string {
  return typeof limits === 'string' ? limits : JSON.stringify(limits)
}

/** One service for all tests of a file or of a `describe`. Each of them begins with `startOver`. */
export function shareLimitedApp(options: TestAppOptions = {}): LimitedApp {
  return share(atEnd => openLimitedApp({}, options, atEnd))
}
