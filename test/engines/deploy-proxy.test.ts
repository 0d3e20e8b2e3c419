import { get } from 'node:http'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { canUseNginx } from '../support/programs.ts'
import { readProject } from '../support/project.ts'
import { useServicePair } from '../support/service-pair.ts'
import { linesOf, type SpawnedService } from '../support/spawn-service.ts'
import { startNginx } from '../support/start-nginx.ts'
import { until } from '../support/until.ts'

const CLIENTS = 8

describe.skipIf(!canUseNginx)('two services behind deploy/nginx.conf', () => {
  const pair = useServicePair()

  test('both serve, and both know the address of the client, whatever it says itself', async () => {
    const port = await startNginx(siteOf(pair))
    const headers = { 'X-Forwarded-For': '203.0.113.9', 'X-Request-Id': 'elsewhere' }
    const options = { port, path: '/users', localAddress: '127.0.0.2', headers }
    for (let count = 0; count < 4; count++) {
      await new Promise(resolve => {
        get({ host: '127.0.0.1', ...options }, answer => answer.resume().once('end', resolve))
      })
    }
    for (const service of [pair.one, pair.other]) {
      const lines = await until(() => {
        const found = requestsOf(service).filter(({ requestId }) => requestId === 'elsewhere')
        return found.length === 2 && found
      })
      expect(lines.map(({ client }) => client)).toEqual(['127.0.0.2', '127.0.0.2'])
    }
  })

  test('each create happens once while one of them is stopped and started again', async () => {
    const url = `http://127.0.0.1:${await startNginx(siteOf(pair))}`
    const paths = new Set<string | null>()
    let creates = 0
    let retries = 0
    let isOver = false

    /** Retries what a service refused or cut off in the last moments of its stop. */
    async function persist(path: string | null, options: RequestInit = {}): Promise<Response> {
      for (;;) {
        const response = await fetch(`${url}${path}`, options)
        if (response.status !== 502 && response.status !== 503) return response
        retries++
        await response.text()
      }
    }

    async function createAndRead(): Promise<void> {
      while (!isOver) {
        const key = `proxy-${++creates}`
        const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key }
        const body = JSON.stringify(newUserBody())
        const created = await persist('/users', { method: 'POST', headers, body })
        expect(created.status).toBe(201)
        const path = created.headers.get('location')
        paths.add(path)
        expect(await (await persist(path)).json()).toEqual(await created.json())
      }
    }

    const clients = Promise.all(Array.from({ length: CLIENTS }, createAndRead))
    const progress = async (count: number) => {
      const before = paths.size
      await Promise.race([clients, until(() => paths.size >= before + count)])
    }
    await progress(100)
    expect((await pair.other.end('SIGTERM')).code).toBe(0)
    await progress(100)
    await pair.restartOther()
    await Promise.race([clients, until(() => requestsOf(pair.other).length > 50)])
    isOver = true
    await clients
    expect(paths.size).toBe(creates)
    expect(retries).toBeLessThan(creates / 4)
    const list = await fetch(`${url}/users?count=true&per_page=1`)
    expect(list.headers.get('x-total-count')).toBe(String(creates))
  })
})

/** The lines about requests that a service has written so far. */
function requestsOf(service: SpawnedService): Record<string, unknown>[] {
  return linesOf(service.stdout()).filter(({ msg }) => msg === 'request')
}

/** `deploy/nginx.conf`, without TLS and passwords, on a port, in front of services on these ports. */
function siteOf({ one, other }: ReturnType<typeof useServicePair>) {
  return (port: number) =>
    readProject('deploy/nginx.conf')
      .replaceAll(/^ *(?:ssl_certificate|auth_basic).*\n/gm, '')
      .replace('listen 443 ssl', `listen 127.0.0.1:${port}`)
      .replace('127.0.0.1:3000', `127.0.0.1:${one.port}`)
      .replace('127.0.0.1:3001', `127.0.0.1:${other.port}`)
}
