import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { cleanUpAfter } from '../support/clean-up-after.ts'
import { findFreePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canUseNginx } from '../support/programs.ts'
import { readProject } from '../support/project.ts'
import { useServicePair } from '../support/service-pair.ts'
import { linesOf, type SpawnedService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const CLIENTS = 8

describe.skipIf(!canUseNginx)('two services behind deploy/nginx.conf', () => {
  const pair = useServicePair()

  test('both serve, and both know the address of the client, whatever it says itself', async () => {
    const port = await startNginx([pair.one.port, pair.other.port])
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
    const url = `http://127.0.0.1:${await startNginx([pair.one.port, pair.other.port])}`
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

/** Starts nginx with `deploy/nginx.conf`, without TLS and passwords, in front of services on these ports. Returns its port. */
async function startNginx(ports: readonly [number, number]): Promise<number> {
  const folder = temporaryFolder()
  const port = await findFreePort()
  const site = readProject('deploy/nginx.conf')
    .replaceAll(/^ *(?:ssl_certificate|auth_basic).*\n/gm, '')
    .replace('listen 443 ssl', `listen 127.0.0.1:${port}`)
    .replace('127.0.0.1:3000', `127.0.0.1:${ports[0]}`)
    .replace('127.0.0.1:3001', `127.0.0.1:${ports[1]}`)
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = kinds.map(kind => `${kind}_temp_path ${join(folder, kind)};`)
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; master_process off; pid ${join(folder, 'pid')}; error_log ${join(folder, 'error.log')};
     events {}
     http { access_log off; ${paths.join(' ')}
     ${site} }`,
  )
  mkdirSync(join(folder, 'client_body'))
  const nginx = spawn('nginx', ['-p', folder, '-c', 'nginx.conf'], { stdio: 'ignore' })
  const end = cleanUpAfter('cat > /dev/null; kill -KILL "$1"', String(nginx.pid))
  onTestFinished(async () => {
    nginx.kill('SIGTERM')
    if (nginx.exitCode === null) await once(nginx, 'exit')
    end()
  })
  await until(async () => {
    if (nginx.exitCode !== null) throw new Error(readFileSync(join(folder, 'error.log'), 'utf8'))
    return fetch(`http://127.0.0.1:${port}/livez`).then(
      () => true,
      () => false,
    )
  })
  return port
}
