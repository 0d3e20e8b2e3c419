import express, { type ErrorRequestHandler } from 'express'
import supertest from 'supertest'
import { expect, test } from 'vitest'
import { writeReply } from '../../src/http/reply.ts'
import type { CounterStore } from '../../src/limits/counter-store.ts'
import type { LimitsFile } from '../../src/limits/kinds/define-limits.ts'
import { openLimiter } from '../support/open-limiter.ts'

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
  const { limiter, messages } = await openLimiter(limits, store)
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
