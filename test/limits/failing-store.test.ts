import { join } from 'node:path'
import express, { type ErrorRequestHandler } from 'express'
import pino from 'pino'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { writeReply } from '../../src/http/reply.ts'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { CounterStore } from '../../src/limits/counter-store.ts'
import { checkLimits } from '../../src/limits/kinds/checked-limits.ts'
import { createLimiter } from '../../src/limits/kinds/limiter.ts'
import { createNotices } from '../../src/limits/notices.ts'
import type { LimitsFile } from '../../src/limits/rules/limits-file.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { openSqliteStored } from '../support/stored.ts'

const unavailable = () => {
  throw new Error('no counts')
}

const STORES: Readonly<Record<string, CounterStore>> = {
  throws: { increment: unavailable, decrement: () => {}, resetKey: unavailable },
  rejects: {
    increment: async () => unavailable(),
    decrement: () => {},
    resetKey: async () => unavailable(),
  },
}

const BAN = { maxretry: 1, findtime: 60, bantime: 60 }

const RULES: Readonly<Record<string, LimitsFile>> = {
  allow2ban: { bans: [BAN] },
  fail2ban: { bans: [{ ...BAN, mode: 'fail2ban' }] },
  'by answers': {
    bans: [{ ...BAN, status: [200] }],
    track: [{ status: [200], limit: 1, period: 1 }],
  },
  throttle: { throttle: [{ limit: 1, period: 60 }] },
  track: { track: [{ limit: 1, period: 60 }] },
  rateLimits: { rateLimits: [{ to: 1, within: 60 }] },
}

const cases = Object.keys(STORES).flatMap(how => Object.keys(RULES).map(rule => ({ how, rule })))

test.each(cases)('a store that $how lets requests pass under $rule', async ({ how, rule }) => {
  const { get, report, messages } = await serve(
    RULES[rule] as LimitsFile,
    STORES[how] as CounterStore,
  )
  for (let index = 0; index < 3; index++) {
    const { status, headers } = await get()
    expect([status, Object.keys(headers).join()]).toEqual([200, expect.not.stringMatching('rate')])
  }
  expect(report()).toMatchObject({ counted: 0, passed: 0, refused: 0 })
  expect(messages).toContain('counter store failed, requests allowed')
})

/** Limits as a program mounts them, whose counts are in this store. */
async function serve(limits: LimitsFile, store: CounterStore) {
  const { bans: banStore } = await openSqliteStored(join(temporaryFolder(), 'users.db'))
  const messages: string[] = []
  const log = pino({}, { write: line => void messages.push(JSON.parse(line).msg) })
  const { now } = Date
  const notices = createNotices({ log, monotonicNow: now })
  const [onStoreFailure, onReadFailure, onForeignChange] = Array(3).fill(unavailable)
  const reports = { onStoreFailure, onReadFailure, onForeignChange }
  const bans = await openBanList({ store: banStore, monotonicNow: now, ...reports })
  onTestFinished(() => bans.close())
  const checked = checkLimits(limits)
  if ('mistakes' in checked) throw new Error(checked.mistakes.join())
  const limiter = createLimiter({
    ...{ limits: checked.limits, store, bans, notices, now, steadyNow: now },
  })
  const answerFailure: ErrorRequestHandler = (error, _request, response, _next) => {
    response.status(500).send(String(error))
  }
  const app = express()
    .use(limiter.filter)
    .get('/users', limiter.limit('list'), (request, response) => {
      writeReply(Object.assign(request, { id: '1', arrival: { at: 0 } }), response, { status: 200 })
    })
    .use(answerFailure)
  return {
    get: () => supertest(app).get('/users'),
    report: () => limiter.report().rules[0],
    messages,
  }
}
