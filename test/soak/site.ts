import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { findFreePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { createPostgresCluster } from '../support/postgres-cluster.ts'
import { startRedis } from '../support/redis-server.ts'
import { run, type SpawnOptions, spawnService } from '../support/spawn-service.ts'

/** How many lists a client may get in a minute. */
export const LISTS_A_MINUTE = 40

/** Banned with the last of them. */
export const STRIKES = 3

const LIMITS = {
  throttle: [{ name: 'floods', userAgent: 'flood', limit: LISTS_A_MINUTE, period: '1 minute' }],
  bans: [
    {
      ...{ name: 'scanners', path: '/wp-*', mode: 'fail2ban' },
      ...{ maxretry: STRIKES, findtime: '1 minute', bantime: '1 minute' },
    },
  ],
}

export type Site = Awaited<ReturnType<typeof openSite>>

export type Service = Awaited<ReturnType<typeof startService>>

/** Two services on one Redis and one PostgreSQL, which has a synchronous standby. They end with the test. */
export async function openSite() {
  const cwd = temporaryFolder()
  const primary = await createPostgresCluster()
  onTestFinished(primary.remove)
  const standby = await primary.createStandby()
  const redis = await startRedis()
  onTestFinished(redis.remove)
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
  const hosts = [primary, standby].map(({ port }) => `127.0.0.1:${port}`)
  const onDatabase = { DATABASE_URL: `postgres://postgres@${hosts}/postgres` }
  const command = (...args: string[]) => run({ cwd, env: onDatabase, args })
  await command('migrate')
  const scope = ['--name', 'soak', '--scope', 'users:read,users:write']
  const { stdout } = await command('keys', 'create', ...scope)
  const env = {
    ...{ ...onDatabase, CACHE_STORE: 'redis', REDIS_URL: redis.url },
    ...{ LIMITS_FILE: 'limits.json', API_KEYS: 'required', TRUST_PROXY: 'loopback' },
  }
  const services = [await startService('a', { cwd, env }), await startService('b', { cwd, env })]
  const headers = { Authorization: `Bearer ${stdout.trim()}` }
  return { folder: cwd, services, primary, standby, redis, headers, command }
}

/** A service that can be started again and again, on the same port. */
async function startService(name: string, { cwd, env }: SpawnOptions) {
  const port = await findFreePort()
  const start = () => spawnService({ cwd, env: { ...env, PORT: String(port) }, keepsLog: false })
  let running = await start()
  return {
    name,
    port,
    url: running.url,
    /** Resolves when it serves. */
    start: async (): Promise<void> => {
      running = await start()
    },
    /** Resolves with its exit code. */
    stop: async (signal: 'SIGTERM' | 'SIGKILL') => (await running.end(signal)).code,
    /** What it uses now. */
    usage: () => {
      const { pid } = running.process
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      const residentMb = Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024)
      return { name, pid, residentMb, files: readdirSync(`/proc/${pid}/fd`).length }
    },
  }
}
