import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { ask } from '../support/json-requests.ts'
import { BEARER, TOKEN } from '../support/management-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canUseJq } from '../support/programs.ts'
import { readProject } from '../support/project.ts'
import { linesOf, run, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const client = '127.0.0.1'
const key = 'web-2026'

/** What each command of the guide prints of the log below, in their order. */
const ANSWERS: readonly (readonly unknown[])[] = [
  [
    { method: 'PATCH', fields: ['name', 'password'], key: null, port: 'management', client },
    { method: 'DELETE', fields: null, key, port: null, client },
  ],
  [
    { route: '/users/{id}', key, port: null },
    { route: '/password-verifications', key },
  ],
  [
    { route: '/users', key, client },
    { route: '/users/changes', key: null, port: 'management' },
  ],
  Array.from({ length: 8 }, (_, nth) => ({
    ...(nth < 7 ? { method: 'POST', user: nth + 1 } : { method: 'DELETE', user: 7 }),
    ...{ key, port: null, client },
  })),
  [{ user: 7, key: null, port: 'management', client }],
  [
    { msg: 'API key created', key, scopes: ['users:read', 'users:write', 'passwords:verify'] },
    { msg: 'API key revoked', key },
  ],
  [
    ...Array(7).fill({ method: 'POST', route: '/users', status: 201 }),
    { method: 'GET', route: '/users/{id}', user: 7, status: 200 },
    { method: 'POST', route: '/password-verifications', user: 7 },
    { method: 'GET', route: '/users' },
    { method: 'DELETE', route: '/users/{id}', user: 7, status: 204 },
    { method: 'GET', route: null, status: 404 },
    { method: 'GET', route: null, status: 429 },
  ],
  [
    { status: 429, reason: 'rate_limited', rule: 'probes', key },
    { status: 401, reason: 'key_required', keyProblem: 'unknown', key: null, client },
  ],
  [{ method: 'PATCH', route: '/users/{id}', user: 7, fields: ['name', 'password'], status: 200 }],
  [
    { msg: 'limit exceeded', rule: 'probes', client },
    { msg: 'request', status: 429, key },
  ],
  [7],
]

test.skipIf(!canUseJq)(
  'each command of docs/operations/audit.md answers its question',
  async () => {
    const cwd = temporaryFolder()
    const probes = { name: 'probes', path: '/probe', limit: 1, period: '1 hour' }
    writeFileSync(join(cwd, 'limits.json'), JSON.stringify({ throttle: [probes] }))
    const env = { API_KEYS: 'required', LIMITS_FILE: 'limits.json', LOG_LEVEL: 'info' }
    const service = await spawnService({
      cwd,
      env: { ...env, MANAGEMENT_PORT: '0', MANAGEMENT_TOKEN: TOKEN },
    })
    const untilLogged = (msg: string) =>
      until(() => linesOf(service.stdout()).find(line => line.msg === msg))
    const scope = 'users:read,users:write,passwords:verify'
    const created = await run({ cwd, args: ['keys', 'create', '--name', key, '--scope', scope] })
    await untilLogged('API key created')
    const asClient = { Authorization: `Bearer ${created.stdout.trim()}` }
    const url = String((await untilLogged('management port listens')).url)

    const email = 'ann@example.com'
    for (let nth = 1; nth < 7; nth++) await ask(service, 'POST /users', newUserBody(), asClient)
    await ask(service, 'POST /users', newUserBody({ name: 'Ann', email }), asClient)
    await ask(service, 'GET /users/7', undefined, asClient)
    const user = { name: 'Anna', password: 'a password of Anna' }
    await ask({ url }, 'PATCH /users/7', { user }, BEARER)
    const login = { user: { email, password: user.password } }
    await ask(service, 'POST /password-verifications', login, asClient)
    await ask(service, 'GET /users', undefined, asClient)
    await ask({ url }, 'GET /users/changes', undefined, BEARER)
    await ask(service, 'DELETE /users/7', undefined, asClient)
    await ask(service, 'GET /probe', undefined, asClient)
    await ask(service, 'GET /probe', undefined, { ...asClient, 'X-Request-Id': 'c0ffee-7' })
    await run({ cwd, args: ['keys', 'revoke', key] })
    const revoked = await untilLogged('API key revoked')
    await ask(service, 'GET /users', undefined, asClient)
    const { stdout } = await service.end('SIGTERM')
    expect(stdout).not.toMatch(/Ann|ann@example|a password of/)

    writeFileSync(join(cwd, 'service.log'), stdout)
    const today = String(revoked.time).slice(0, 10)
    const commands = [
      ...readProject('docs/operations/audit.md').matchAll(/^```sh\n(jq .+)\n```$/gm),
    ].map(([, command = '']) => command)
    expect(commands).toHaveLength(ANSWERS.length)
    for (const [nth, command] of commands.entries()) {
      const sh = spawnSync('sh', ['-c', command.replaceAll('2026-11-27', today)], {
        cwd,
        encoding: 'utf8',
      })
      const printed = sh.stdout
        .trim()
        .split('\n')
        .map(line => JSON.parse(line || 'null'))
      expect([command, sh.stderr, printed]).toMatchObject([command, '', ANSWERS[nth] ?? []])
    }
  },
)
