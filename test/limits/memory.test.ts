import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { LimitsFile } from '../../src/limits/kinds/define-limits.ts'
import { openLimitedApp } from '../support/limited-app.ts'
import { CLOSING, type RawHeaders, requestBytes, sendRaw } from '../support/raw-http.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

/** Of all requests together, 4.5 MB are not kept. */
const ROUNDS = 3
const AT_ONCE = 100
const PADDING = 'x'.repeat(15_000)

/** A request line or a header of 15 KB for each client, of which the rule needs a few characters. */
type Sent = (client: number) => {
  readonly line?: string
  readonly headers?: RawHeaders
  readonly body?: string
}

const MANY = { limit: 1_000_000, period: 60 }
const TO = { to: 1_000_000, within: 60 }
const BAN = { findtime: 60, bantime: 60 }

const forwardedFor = (client: number) => ({
  'X-Forwarded-For': `${PADDING}, 198.51.${100 + (client >> 7)}.${100 + (client & 127)}`,
})

test.each<[what: string, limits: LimitsFile, sent: Sent, env?: Record<string, string>]>([
  [
    'hosts that are refused',
    {},
    client => ({ headers: { Host: `${client}.${PADDING}` } }),
    { ALLOWED_HOSTS: 'localhost' },
  ],
  [
    'hosts too long for a domain',
    { throttle: [{ ...MANY, by: 'domain' }] },
    client => ({ headers: { Host: `${PADDING}.domain-${client}.example` } }),
  ],
  [
    'addresses',
    {
      bans: [{ ...BAN, maxretry: 1, dryRun: true }],
      throttle: [MANY, { ...MANY, ip: '203.0.113.7' }],
      rateLimits: [TO],
    },
    client => ({ headers: forwardedFor(client) }),
  ],
  [
    'clients that are refused',
    {
      blocklist: [{ path: '/never' }],
      bans: [{ ...BAN, path: '/no', by: 'query:client', maxretry: 1_000_000, mode: 'fail2ban' }],
    },
    client =>
      client % 2 === 0
        ? { line: `GET /no?client=the-client-${client}&more=${PADDING}` }
        : { line: 'GET /never', headers: forwardedFor(client) },
  ],
  [
    'values of a parameter',
    { throttle: [{ ...MANY, by: 'query:client' }] },
    client => ({ line: `GET /users?client=the-client-${client}&more=${PADDING}` }),
  ],
  [
    'e-mail addresses',
    { rateLimits: [{ ...TO, by: 'body:user.email' }] },
    client => ({
      line: 'POST /users',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        user: { email: `client-${client}@example.com${PADDING.replaceAll('x', ' ')}` },
      }),
    }),
  ],
])('%s keep nothing else of their requests in memory', async (_what, limits, sent, env = {}) => {
  const { port, logLines, logText, notices } = await openLimitedApp(limits, { env })
  let clients = 0
  async function sendMany(): Promise<void> {
    const requests = Array.from({ length: AT_ONCE }, (_, index) => {
      const { line = 'GET /users', headers, body } = sent(clients++)
      return requestBytes(line, { ...(index === AT_ONCE - 1 && CLOSING), ...headers }, body)
    })
    expect(await sendRaw(port, Buffer.concat(requests)).ended).toHaveLength(AT_ONCE)
    // The log of the test would be most of what is kept.
    for (const kept of [logLines, logText as string[], notices]) kept.length = 0
  }
  const usedMb = async () => {
    await new Promise(setImmediate)
    collectGarbage()
    return process.memoryUsage().heapUsed / 1e6
  }
  await sendMany()
  const before = await usedMb()
  for (let round = 0; round < ROUNDS; round++) await sendMany()
  expect((await usedMb()) - before).toBeLessThan(3)
})
