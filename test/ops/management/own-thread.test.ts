import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { linesOf, spawnService } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'

const RULES = {
  bans: [{ name: 'scanners', path: '*.php', maxretry: 1, findtime: '1 hour', bantime: '1 hour' }],
}

test('a service of one process does all that operators ask for on the thread of the port', async () => {
  const cwd = temporaryFolder()
  const limits = join(cwd, 'limits.json')
  writeFileSync(limits, JSON.stringify(RULES))
  const env = { WORKERS: '1', MANAGEMENT_PORT: '0', LIMITS_FILE: limits }
  const service = await spawnService({ cwd, env })
  const lines = () => linesOf(service.stdout())
  await until(() => lines().some(({ msg }) => msg === 'management port listens'))
  const port = lines().find(({ msg }) => msg === 'management port listens')?.url
  const ask = async (method: string, path: string, body?: object) => {
    const headers = { 'Content-Type': 'application/json' }
    const init = body === undefined ? { method } : { method, headers, body: JSON.stringify(body) }
    const response = await fetch(`${port}${path}`, init)
    const type = response.headers.get('content-type') ?? ''
    const isJson = type.startsWith('application/json')
    return { status: response.status, body: isJson ? await response.json() : await response.text() }
  }

  await fetch(`${service.url}/users`)
  expect((await ask('GET', '/metrics')).body).toContain(
    'http_request_duration_seconds_count{method="GET",route="/users",status="200"} 1\n',
  )
  expect((await ask('GET', '/status')).body).toMatchObject({
    ready: true,
    limits: { rules: [{ type: 'ban' }] },
  })
  expect((await ask('GET', '/readyz')).status).toBe(200)

  const ban = { rule: 'scanners', client: '127.0.0.1', for: '10 minutes' }
  expect(await ask('POST', '/bans', { ban })).toMatchObject({
    status: 201,
    body: { rule: 'scanners' },
  })
  expect((await fetch(`${service.url}/users`)).status).toBe(403)
  expect((await ask('GET', '/bans')).body).toMatchObject([{ client: '127.0.0.1' }])
  expect((await ask('DELETE', '/bans?all=true')).body).toEqual({ lifted: 1 })
  expect((await fetch(`${service.url}/users`)).status).toBe(200)
  expect(await ask('POST', '/bans', { ban: { ...ban, rule: 'nobody' } })).toMatchObject({
    status: 422,
    body: { reason: 'validation_failed', errors: { rule: expect.any(Array) } },
  })

  writeFileSync(limits, JSON.stringify({ ...RULES, nonsense: [] }))
  expect(await ask('POST', '/limits/reload')).toMatchObject({ status: 422 })
  writeFileSync(limits, '{}')
  expect(await ask('POST', '/limits/reload')).toMatchObject({
    status: 200,
    body: { reloaded: true },
  })
  expect((await ask('GET', '/limits')).body).toEqual([])

  service.process.kill('SIGTERM')
  expect(await service.exited).toMatchObject({ code: 0, stderr: '' })
  expect(lines()).toContainEqual(
    expect.objectContaining({ port: 'management', method: 'POST', route: '/bans', status: 201 }),
  )
}, 180_000)
