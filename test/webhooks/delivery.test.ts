import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { hurryPolls } from '../support/global-timers.ts'
import { createMany } from '../support/many-users.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { executeSql, selectRows } from '../support/sql.ts'
import { until } from '../support/until.ts'
import {
  addWebhook,
  isSignedWith,
  listWebhooks,
  namesIn,
  openReceiver,
  type Posted,
  status,
  webhooks,
} from '../support/webhook-receiver.ts'

const MINUTE_MS = 60_000

hurryPolls()

async function createUser({ http }: TestApp, name = 'Ann') {
  const { body } = await http.post('/users').send(newUserBody({ name })).expect(201)
  return body
}

const rename = ({ http }: TestApp, id: number, name: string) =>
  http.put(`/users/${id}`).send({ user: { name } }).expect(200)

/** A service with a webhook that gets all changes from now on, and its receiver. */
async function openDelivery({
  answer = status(204),
  ...options
}: {
  readonly answer?: Parameters<typeof openReceiver>[0]
  readonly now?: () => number
} = {}) {
  const app = await openTestApp(options)
  const receiver = await openReceiver(answer)
  const secret = await addWebhook(app.databaseUrl, 'search', receiver.url)
  return { app, receiver, secret }
}

/** The webhook, as the list shows it, once it fails. */
function untilFailing({ databaseUrl }: TestApp) {
  return until(async () => {
    const [webhook] = await listWebhooks(databaseUrl)
    return webhook.state === 'failing' && webhook
  })
}

/** How many tries have failed since the last success. */
async function failuresOf({ databaseUrl }: TestApp): Promise<number> {
  const [row] = await selectRows(databaseUrl, 'SELECT failures FROM webhooks')
  return Number(row?.failures)
}

describe('a webhook', () => {
  test('gets each change, in order, signed as Standard Webhooks say', async () => {
    const { app, receiver, secret } = await openDelivery()
    const ann = await createUser(app)
    await until(() => receiver.posted.length === 1)
    const [first] = receiver.posted
    expect(first).toMatchObject({
      method: 'POST',
      url: '/',
      headers: {
        'content-type': 'application/json',
        'user-agent': expect.stringMatching(/^user-records-service\/\d/),
        'webhook-timestamp': expect.stringMatching(/^\d{10}$/),
        'webhook-id': expect.stringMatching(/^msg_[\w-]{32}$/),
        'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
      },
      body: {
        type: 'users.changed',
        timestamp: ann.updated_at,
        data: [{ id: ann.id, user: ann }],
      },
    })
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(isSignedWith(secret, first as Posted)).toBe(true)
    expect(isSignedWith(`whsec_${Buffer.alloc(32).toString('base64')}`, first as Posted)).toBe(
      false,
    )

    await rename(app, ann.id, 'Anna')
    await app.http.delete(`/users/${ann.id}`)
    const last = await until(() => {
      const entries = receiver.posted.flatMap(({ body }) => body.data)
      return entries.find(({ user }) => user === null)
    })
    expect(last).toEqual({ id: ann.id, user: null, deleted_at: expect.stringMatching(/Z$/) })
    expect(receiver.posted.at(-1)?.body.timestamp).toBe(last.deleted_at)
    expect(receiver.posted.every(posted => isSignedWith(secret, posted))).toBe(true)
  })

  test('gets nothing from before it was added, or everything with --from start', async () => {
    const app = await openTestApp()
    await createUser(app, 'Before')
    const [late, all] = [await openReceiver(), await openReceiver()]
    await addWebhook(app.databaseUrl, 'late', late.url)
    await addWebhook(app.databaseUrl, 'all', all.url, '--from', 'start')
    await until(() => all.posted.length > 0)
    await createUser(app, 'After')
    await until(() => late.posted.length > 0 && namesIn(all.posted).includes('After'))
    expect(namesIn(late.posted)).toEqual(['After'])
    expect(namesIn(all.posted)).toEqual(['Before', 'After'])
  })

  test('gets at most 100 changes in a request, and one request at a time', async () => {
    const app = await openTestApp()
    await createMany(
      app,
      Array.from({ length: 270 }, () => newUserBody().user),
    )
    let open = 0
    let most = 0
    const receiver = await openReceiver(response => {
      most = Math.max(most, ++open)
      setTimeout(() => {
        open--
        response.writeHead(200).end('thanks')
      }, 30)
    })
    await addWebhook(app.databaseUrl, 'search', receiver.url, '--from', 'start')
    await until(() => receiver.posted.flatMap(({ body }) => body.data).length === 270)
    expect(receiver.posted.map(({ body }) => body.data.length)).toEqual([100, 100, 70])
    expect(most).toBe(1)
  })

  test('is sent credentials of its address as Basic, and its query', async () => {
    const app = await openTestApp()
    const receiver = await openReceiver()
    const url = receiver.url.replace('//', '//us%40er:pa%3Ass@')
    await addWebhook(app.databaseUrl, 'search', `${url}/hook?token=t0p`)
    await createUser(app)
    await until(() => receiver.posted.length > 0)
    expect(receiver.posted[0]).toMatchObject({
      url: '/hook?token=t0p',
      headers: { authorization: `Basic ${Buffer.from('us@er:pa:ss').toString('base64')}` },
    })
    expect(JSON.stringify(app.logLines)).not.toMatch(/t0p|pa%3Ass|pa:ss/)
  })

  test('with WEBHOOKS=off this process posts nothing', async () => {
    const app = await openTestApp({ env: { WEBHOOKS: 'off' } })
    const receiver = await openReceiver()
    await addWebhook(app.databaseUrl, 'search', receiver.url)
    await createUser(app)
    const other = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    await until(() => receiver.posted.length > 0)
    await other.stop()
    await createUser(app, 'Bea')
    expect(namesIn(receiver.posted)).toEqual(['Ann'])
  })
})

describe('after a failure', () => {
  test('the same content comes again with the same id, other content with another', async () => {
    const clock = createFakeClock()
    const { app, receiver, secret } = await openDelivery({ ...clock, answer: status(500) })
    const { id } = await createUser(app)
    await untilFailing(app)
    clock.advance(6000)
    await until(() => receiver.posted.length === 2)
    await rename(app, id, 'Anna')
    receiver.answerWith(status(204))
    clock.advance(MINUTE_MS)
    await until(() => receiver.posted.length === 3)
    const [first, second, third] = receiver.posted.map(({ headers }) => headers['webhook-id'])
    expect(second).toBe(first)
    expect(third).not.toBe(first)
    const [before, after] = receiver.posted.map(({ headers }) => headers['webhook-timestamp'])
    expect(Number(after)).toBeGreaterThan(Number(before))
    expect(namesIn(receiver.posted)).toEqual(['Ann', 'Ann', 'Anna'])
    expect(secret).toMatch(/^whsec_/)
  })

  test('it is tried again after 5 s, 30 s, 2 min, 10 min, then every hour', async () => {
    const clock = createFakeClock()
    const { app, receiver } = await openDelivery({ ...clock, answer: status(503) })
    await createUser(app)
    await until(() => receiver.posted.length === 1)
    for (const [tries, waitMs] of [
      5000, 30_000, 120_000, 600_000, 3_600_000, 3_600_000,
    ].entries()) {
      await until(async () => (await failuresOf(app)) === tries + 1)
      const [{ failing_since: since }] = await listWebhooks(app.databaseUrl)
      expect(since).toBe('2026-01-31T12:00:00.000Z')
      clock.advance(waitMs * 0.85)
      expect(await isQuiet(receiver.posted)).toBe(true)
      clock.advance(waitMs * 0.3)
      await until(() => receiver.posted.length === tries + 2)
    }
  })

  test.each([
    ['60', 55_000, 60_000],
    ['86400', 3_595_000, 3_600_000],
    ['0', 999, 7000],
    ['Sat, 31 Jan 2026 11:00:00 GMT', 999, 7000],
    // Neither seconds nor a date: the step counts.
    ['120.5', 2999, 7000],
    ['-5', 2999, 7000],
  ])(
    'Retry-After: %s lets it rest for %d ms, and not longer than %d ms',
    async (after, rest, due) => {
      const clock = createFakeClock()
      const answer = status(503, { 'Retry-After': after })
      const { app, receiver } = await openDelivery({ ...clock, answer })
      await createUser(app)
      await untilFailing(app)
      clock.advance(rest)
      expect(await isQuiet(receiver.posted)).toBe(true)
      clock.advance(due - rest)
      await until(() => receiver.posted.length === 2)
    },
  )

  test('redirects are not followed', async () => {
    const other = await openReceiver()
    const answer = status(307, { Location: other.url })
    const { app, receiver } = await openDelivery({ answer })
    await createUser(app)
    const { last_error } = await untilFailing(app)
    expect([last_error, receiver.posted.length, other.posted]).toEqual(['it answered 307', 1, []])
  })

  test('a receiver that takes nothing for an hour gets each user once, as it is then', async () => {
    const clock = createFakeClock()
    const { app, receiver } = await openDelivery({ ...clock, answer: status(500) })
    const { id } = await createUser(app, 'Ann 0')
    await until(() => receiver.posted.length === 1)
    for (let at = 1; at <= 12; at++) {
      await rename(app, id, `Ann ${at}`)
      clock.advance(5 * MINUTE_MS)
    }
    const tried = receiver.posted.length
    receiver.answerWith(status(204))
    clock.advance(61 * MINUTE_MS)
    await until(async () => (await listWebhooks(app.databaseUrl))[0].state === 'active')
    const delivered = receiver.posted.slice(tried).filter(({ body }) => body.data.length > 0)
    expect(namesIn(delivered)).toEqual(['Ann 12'])
  })

  test('the first failure and the first success after it are each one line of the log', async () => {
    const clock = createFakeClock()
    const { app, receiver } = await openDelivery({ ...clock, answer: status(500) })
    await createUser(app)
    await untilFailing(app)
    clock.advance(6000)
    await until(() => receiver.posted.length === 2)
    receiver.answerWith(status(204))
    await until(async () => (await failuresOf(app)) === 2)
    clock.advance(MINUTE_MS)
    const lines = await until(() => {
      // On a busy machine a line may also say that it waits for the database.
      const found = app.logLines.filter(({ msg }) => /^webhook (?:fails|delivers)/.test(`${msg}`))
      return found.length === 2 && found
    })
    const url = `${receiver.url}/`
    expect(lines).toMatchObject([
      { level: 40, msg: 'webhook fails', url, reason: 'it answered 500' },
      { level: 30, msg: 'webhook delivers again', url },
    ])
  })

  test('410 disables the webhook, until it is resumed', async () => {
    const { app, receiver } = await openDelivery({ answer: status(410) })
    await createUser(app)
    await until(async () => (await listWebhooks(app.databaseUrl))[0].state === 'disabled')
    expect(app.logLines.find(({ msg }) => /^webhook disabled/.test(String(msg)))).toMatchObject({
      level: 40,
      webhook: 'search',
    })
    receiver.answerWith(status(204))
    await createUser(app, 'Bea')
    expect(await isQuiet(receiver.posted)).toBe(true)
    expect((await webhooks(app.databaseUrl, 'resume', 'search')).code).toBe(0)
    await until(() => namesIn(receiver.posted).includes('Bea'))
    expect(namesIn(receiver.posted)).toEqual(['Ann', 'Ann', 'Bea'])
    await until(() => app.logLines.some(({ msg }) => msg === 'webhook delivers again'))
  })

  test.each([
    ['127.0.0.1', /ECONNREFUSED/],
    ['169.254.169.254', /^169.254.169.254 is an address that webhooks may not have$/],
  ])(
    'the list says why nothing can be sent to %s, whatever the database says',
    async (host, why) => {
      const app = await openTestApp()
      await addWebhook(app.databaseUrl, 'search', 'http://127.0.0.1:9/')
      await executeSql(
        app.databaseUrl,
        `UPDATE webhooks SET url = 'http://${host}:9/?token=secret'`,
      )
      await createUser(app)
      expect(await untilFailing(app)).toEqual({
        name: 'search',
        url: `http://${host}:9/`,
        state: 'failing',
        behind_seconds: expect.any(Number),
        failing_since: expect.stringMatching(/Z$/),
        last_error: expect.stringMatching(why),
      })
    },
  )
})

describe('commands are obeyed by a running service', () => {
  test('replay sends everything again, as other content', async () => {
    const { app, receiver } = await openDelivery()
    await createUser(app)
    await until(() => receiver.posted.length === 1)
    await webhooks(app.databaseUrl, 'replay', 'search')
    await until(() => receiver.posted.length === 2)
    const [first, second] = receiver.posted
    expect(second?.text).toBe(first?.text)
    expect(second?.headers['webhook-id']).not.toBe(first?.headers['webhook-id'])
  })

  test('rotate gives a new secret, and for 24 hours both sign', async () => {
    const clock = createFakeClock(Date.now())
    const { app, receiver, secret } = await openDelivery(clock)
    const { stdout } = await webhooks(app.databaseUrl, 'rotate', 'search')
    const next = stdout.trimEnd()
    expect(next).not.toBe(secret)
    await until(async () => {
      await createUser(app)
      return receiver.posted.some(posted => isSignedWith(next, posted))
    }, 300)
    const both = receiver.posted.at(-1) as Posted
    expect([isSignedWith(secret, both), isSignedWith(next, both)]).toEqual([true, true])
    // The command has counted from its own clock, which goes on during the test.
    clock.advance(25 * 60 * MINUTE_MS)
    await createUser(app)
    const later = await until(() => {
      const last = receiver.posted.at(-1)
      return last !== both && last?.headers['webhook-signature']?.split(' ').length === 1 && last
    })
    expect(later.headers['webhook-signature']).not.toContain(' ')
  })

  test('remove ends it', async () => {
    const { app, receiver } = await openDelivery()
    await createUser(app)
    await until(() => receiver.posted.length === 1)
    await webhooks(app.databaseUrl, 'remove', 'search')
    const other = await openReceiver()
    await addWebhook(app.databaseUrl, 'other', other.url, '--from', 'start')
    // Whoever posts to the one has read that the other is gone.
    await until(() => other.posted.length > 0)
    await createUser(app, 'Bea')
    await until(() => namesIn(other.posted).includes('Bea'))
    expect(namesIn(receiver.posted)).toEqual(['Ann'])
    expect(await listWebhooks(app.databaseUrl)).toMatchObject([{ name: 'other' }])
  })
})

test('a webhook that is added with the name of one that was just removed has its own address', async () => {
  const { app, receiver } = await openDelivery()
  await createUser(app)
  await until(() => receiver.posted.length === 1)
  const other = await openReceiver()
  for (let times = 0; times < 2; times++) {
    const { url } = times === 0 ? receiver : other
    await webhooks(app.databaseUrl, 'remove', 'search')
    await addWebhook(app.databaseUrl, 'search', url, '--from', 'start')
  }
  await until(() => namesIn(other.posted).includes('Ann'))
  await createUser(app, 'Bea')
  await until(() => namesIn(other.posted).includes('Bea'))
  expect(namesIn(receiver.posted)).not.toContain('Bea')
})

describe('a cursor that cannot be followed any more', () => {
  test.each(['before', 'after'])(
    'tells so after a replay, too, which was ordered %s a deletion was forgotten',
    async order => {
      const { app, receiver } = await openDelivery()
      const { id } = await createUser(app)
      await until(async () => (await listWebhooks(app.databaseUrl))[0].behind_seconds === 0)
      await until(() => receiver.posted.length === 1)
      await app.stop()
      const env = { DATABASE_URL: app.databaseUrl, CHANGES_RETENTION: '1h' }
      const other = await openTestApp({ env: { ...env, WEBHOOKS: 'off' } })
      await createUser(other, 'Bea')
      await other.http.delete(`/users/${id}`).expect(204)
      if (order === 'before') await webhooks(app.databaseUrl, 'replay', 'search')
      const now = () => Date.now() + 120 * MINUTE_MS
      await openTestApp({ env: { ...env, WEBHOOKS: 'off' }, now })
      await until(async () => {
        const sql = 'SELECT count(*) AS kept FROM user_changes WHERE deleted_at IS NOT NULL'
        return Number((await selectRows(app.databaseUrl, sql))[0]?.kept) === 0
      })
      if (order === 'after') await webhooks(app.databaseUrl, 'replay', 'search')
      await openTestApp({ env })
      await until(() => namesIn(receiver.posted).includes('Bea'))
      expect(receiver.posted.map(({ body }) => body.type)).toEqual([
        ...['users.changed', 'users.reset', 'users.changed'],
      ])
      expect(namesIn(receiver.posted)).toEqual(['Ann', 'Bea'])
    },
  )

  test('tells the receiver to forget all users, and everything follows', async () => {
    const { app, receiver } = await openDelivery()
    await createUser(app)
    await until(() => receiver.posted.length === 1)
    await app.stop()
    await executeSql(app.databaseUrl, `UPDATE webhooks SET cursor = 'no cursor of any release'`)
    await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    await until(() => receiver.posted.length === 3)
    const [first, reset, again] = receiver.posted
    expect(reset?.body).toEqual({
      type: 'users.reset',
      timestamp: expect.stringMatching(/Z$/),
      data: [],
    })
    expect(again?.text).toBe(first?.text)
    expect(again?.headers['webhook-id']).not.toBe(first?.headers['webhook-id'])
  })
})

describe('several services of one database', () => {
  test('one of them posts, and another goes on when it stops', async () => {
    const { app, receiver } = await openDelivery()
    const other = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    for (const name of ['Ann', 'Bea', 'Cem']) {
      await createUser(other, name)
      await until(() => namesIn(receiver.posted).includes(name))
    }
    await app.stop()
    await createUser(other, 'Dan')
    await until(() => namesIn(receiver.posted).includes('Dan'))
    expect(namesIn(receiver.posted)).toEqual(['Ann', 'Bea', 'Cem', 'Dan'])
  })
})

/** Whether nothing more comes for longer than a runner pauses. */
async function isQuiet(posted: readonly Posted[]): Promise<boolean> {
  const before = posted.length
  await new Promise(resolve => setTimeout(resolve, 100))
  return posted.length === before
}
