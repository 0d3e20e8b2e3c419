import { get } from 'node:http'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { startNginx } from '../support/nginx.ts'
import { canUseNginx } from '../support/nginx-settings.ts'
import { useServicePair } from '../support/service-pair.ts'
import { linesOf, type SpawnedService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const CLIENTS = 8

/** The lines about requests that a service has written so far. */
function requestsOf(service: SpawnedService): Record<string, unknown>[] {
  const log = service.stdout()
  const lines = linesOf(log.slice(0, log.lastIndexOf('\n') + 1))
  return lines.filter(({ msg }) => msg === 'request')
}

interface Create {
  readonly body: object
  readonly key: string
}

function createThrough(url: string, { body, key }: Create): Promise<Response> {
  return fetch(`${url}/users`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
    body: JSON.stringify(body),
  })
}

describe.skipIf(!canUseNginx)('two services behind deploy/nginx.conf', () => {
  const pair = useServicePair({})

  async function start(): Promise<string> {
    return `http://127.0.0.1:${await startNginx([pair.one.port, pair.other.port])}`
  }

  test('both serve, both read what one created, and both know the address of the client', async () => {
    const url = await start()
    const created = await createThrough(url, { body: newUserBody(), key: 'first' })
    const path = created.headers.get('location')
    expect(created.status).toBe(201)
    for (let count = 0; count < 4; count++) {
      expect((await fetch(`${url}${path}`)).status).toBe(200)
    }
    const ask = (requestId: string) =>
      new Promise(resolve => {
        const headers = { 'X-Forwarded-For': '203.0.113.9', 'X-Request-Id': requestId }
        get(`${url}${path}`, { localAddress: '127.0.0.2', headers }, response => {
          response.resume().once('end', resolve)
        })
      })
    for (let count = 0; count < 4; count++) await ask(`elsewhere-${count}`)
    for (const service of [pair.one, pair.other]) {
      const lines = await until(() => {
        const found = requestsOf(service)
        return found.filter(({ requestId }) => `${requestId}`.startsWith('elsewhere')).length === 2
          ? found
          : undefined
      })
      const reads = lines.filter(({ route }) => route === '/users/{id}')
      expect(reads.map(({ client }) => client)).toEqual([
        '127.0.0.1',
        '127.0.0.1',
        '127.0.0.2',
        '127.0.0.2',
      ])
    }
  })

  test('each create happens once while one of them is stopped and started again', async () => {
    const url = await start()
    const paths = new Set<string | null>()
    let creates = 0
    let retries = 0
    let isOver = false

    /** Retries what a service refused or cut off in the last moments of its stop. */
    async function persist(send: () => Promise<Response>): Promise<Response> {
      for (;;) {
        const response = await send()
        if (response.status !== 502 && response.status !== 503) return response
        retries++
        await response.text()
      }
    }

    async function createAndRead(): Promise<void> {
      while (!isOver) {
        const body = newUserBody()
        const key = `proxy-${++creates}`
        const created = await persist(() => createThrough(url, { body, key }))
        expect(created.status).toBe(201)
        const path = created.headers.get('location')
        paths.add(path)
        const read = await persist(() => fetch(`${url}${path}`))
        expect(await read.json()).toEqual(await created.json())
      }
    }

    const clients = Promise.all(Array.from({ length: CLIENTS }, createAndRead))
    const progress = async (count: number) => {
      const before = paths.size
      await Promise.race([clients, until(() => paths.size >= before + count)])
    }
    await progress(100)
    pair.other.process.kill('SIGTERM')
    expect((await pair.other.exited).code).toBe(0)
    await progress(100)
    await pair.restartOther()
    await Promise.race([clients, until(() => requestsOf(pair.other).length > 50)])
    isOver = true
    await clients
    expect(paths.size).toBe(creates)
    expect(retries).toBeLessThan(creates / 4)
    const list = await fetch(`${url}/users?count=true&per_page=1`)
    expect(list.headers.get('x-total-count')).toBe(String(creates + 1))
  })
})
