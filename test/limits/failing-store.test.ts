import express, { type ErrorRequestHandler } from 'express'
import pino from 'pino'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { writeReply } from '../../src/http/reply.ts'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { CounterStore } from '../../src/limits/counter-store.ts'
import type { LimitsFile } from '../../src/limits/kinds/define-limits.ts'
import { createLimiter } from '../../src/limits/kinds/limiter.ts'
import { checkLimits } from '../../src/limits/kinds/load-limits.ts'
import { createLimitLog } from '../../src/limits/limit-log.ts'
import { openSqliteStored } from '../support/stored.ts'

const fail = () => {
  throw new Error('the bans failed')
}

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
  const { bans: banStore } = await openSqliteStored(':memory:')
  const messages: string[] = []
  const log = pino({}, { write: line => void messages.push(JSON.parse(line).msg) })
  const { now } = Date
  const reports = { onStoreFailure: fail, onReadFailure: fail, onForeignChange: fail }
  const bans = await openBanList({ store: banStore, monotonicNow: now, ...reports })
  onTestFinished(() => bans.close())
  const limiter = createLimiter({
    ...{ limits: checkLimits(limits), store, bans, now, steadyNow: now },
    log: createLimitLog({ log, monotonicNow: now }),
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
