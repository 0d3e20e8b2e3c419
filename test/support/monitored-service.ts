import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from './open-test-app.ts'
import { run, type SpawnedService, spawnService } from './spawn-service.ts'
import { until } from './until.ts'

const TOKEN = 'token-of-the-monitoring-tests'

/** Each has an outcome in the metrics: a limit in force, one in dry run, and a ban. */
const LIMITS = {
  rateLimits: [{ name: 'verifications', to: 3, within: '1 day', only: ['verify'] }],
  throttle: [{ name: 'strict', limit: 1, period: '1 day', dryRun: true }],
  bans: [
    {
      name: 'probing',
      path: '/wp-admin',
      maxretry: 1,
      findtime: '1 day',
      bantime: '1 day',
      by: 'header:user-agent',
      mode: 'fail2ban',
    },
  ],
}

/** The built service with everything that has metrics: limits, API keys and the management port. */
export interface MonitoredService {
  readonly service: SpawnedService
  /** Host and port of the management port. */
  readonly address: string
  readonly token: string
  /** What `GET /metrics` answers. */
  scrape(accept?: string): Promise<string>
  /** Sends requests that between them have every outcome. One has the trace id, if it is given. */
  use(traceId?: string): Promise<void>
}

interface SentParts {
  readonly user?: object
  readonly headers?: Readonly<Record<string, string>>
}

export async function openMonitoredService(): Promise<MonitoredService> {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
  const created = await run({
    cwd,
    args: [
      'keys',
      'create',
      '--name',
      'monitored',
      '--scope',
      'users:read,users:write,passwords:verify',
    ],
  })
  const key = created.stdout.trim()
  const service = await spawnService({
    cwd,
    env: {
      LIMITS_FILE: 'limits.json',
      API_KEYS: 'required',
      MAX_WAITING_PASSWORDS: '1',
      MANAGEMENT_PORT: '0',
      MANAGEMENT_TOKEN: TOKEN,
    },
  })
  const address = await until(() => findManagementAddress(service.stdout()))
  let users = 0

  async function send(method: string, path: string, { user, headers }: SentParts = {}) {
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...headers },
      ...(user && { body: JSON.stringify({ user }) }),
    })
    await response.arrayBuffer()
  }

  const email = () => `user-${users++}@example.com`
  return {
    service,
    address,
    token: TOKEN,
    scrape: async (accept = '*/*') => {
      const response = await fetch(`http://${address}/metrics`, {
        headers: { Authorization: `Bearer ${TOKEN}`, Accept: accept },
      })
      return response.text()
    },
    use: async traceId => {
      const traceparent = traceId && `00-${traceId}-00f067aa0ba902b7-01`
      const password = 'a long password'
      await send('GET', '/users', { headers: traceparent ? { traceparent } : {} })
      await send('GET', '/users/1')
      await send('GET', '/nowhere')
      const known = email()
      await send('POST', '/users', { user: { name: 'Ann', email: known, password } })
      // More than the threads of all processes take, so that some get 503.
      await Promise.all(
        Array.from({ length: 50 }, () =>
          send('POST', '/users', { user: { name: 'Ann', email: email(), password } }),
        ),
      )
      await send('POST', '/password-verifications', { user: { email: known, password } })
      await send('POST', '/password-verifications', { user: { email: known, password: 'wrong' } })
      await send('GET', '/wp-admin', { headers: { 'User-Agent': 'a scanner' } })
      await send('GET', '/users', { headers: { 'User-Agent': 'a scanner' } })
    },
  }
}

/** From the line of the log that has it. */
function findManagementAddress(log: string): string | undefined {
  const line = log
    .split('\n')
    // It may not be complete yet.
    .slice(0, -1)
    .find(text => text.includes('"msg":"management port listens"'))
  return line === undefined ? undefined : new URL(JSON.parse(line).url).host
}
