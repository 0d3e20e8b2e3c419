import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { hurryPolls } from '../support/global-timers.ts'
import { openManagedApp } from '../support/management-requests.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { until } from '../support/until.ts'
import { addWebhook, openReceiver, status } from '../support/webhook-receiver.ts'

hurryPolls()

test('GET /status and GET /metrics say how far each webhook is behind, and what it was sent', async () => {
  const clock = createFakeClock(Date.now())
  const { ops, http, databaseUrl, stop } = await openManagedApp(clock)
  const read = async (name: string, outcome?: string, port = ops) => {
    const { text } = await port.get('/metrics').expect(200)
    return parseMetrics(text).read(name, { webhook: 'search', ...(outcome && { outcome }) })
  }
  expect(await read('webhook_behind_seconds')).toBeUndefined()
  const receiver = await openReceiver(status(500))
  await addWebhook(databaseUrl, 'search', `${receiver.url.replace('//', '//me:pass@')}/hook?a=t0p`)
  await http.post('/users').send(newUserBody()).expect(201)
  const shown = async (state: string) => {
    const { body, text } = await ops.get('/status').expect(200)
    expect(text).not.toMatch(/t0p|pass@/)
    return body.webhooks[0]?.state === state && body.webhooks
  }
  await until(() => shown('failing'))
  expect(await read('webhook_deliveries_total', 'failed')).toBe(1)
  // The clock of the command does not stand still.
  clock.advance(1000_000)
  expect(await shown('failing')).toEqual([
    {
      ...{ name: 'search', url: `${receiver.url}/hook`, state: 'failing' },
      ...{ behind_seconds: expect.toSatisfy(seconds => seconds > 900 && seconds <= 1000) },
      ...{ failing_since: expect.stringMatching(/Z$/), last_error: 'it answered 500' },
    },
  ])
  expect(await read('webhook_behind_seconds')).toBeGreaterThan(900)

  receiver.answerWith(status(204))
  clock.advance(3600_000)
  await until(() => shown('active'))
  await until(async () => (await read('webhook_behind_seconds')) === 0)
  expect(await read('webhook_deliveries_total', 'delivered')).toBe(1)

  receiver.answerWith(status(410))
  await http.post('/users').send(newUserBody()).expect(201)
  await until(() => shown('disabled'))
  clock.advance(1000_000)
  expect(await read('webhook_behind_seconds')).toBeGreaterThan(900)

  await stop()
  const { ops: later } = await openManagedApp({ ...clock, env: { DATABASE_URL: databaseUrl } })
  const behind = await until(() => read('webhook_behind_seconds', undefined, later))
  expect(behind).toBeGreaterThan(900)
})
