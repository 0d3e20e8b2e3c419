import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createPostgresCluster } from '../support/postgres-cluster.ts'
import { startRedis } from '../support/redis-server.ts'
import { UNHURRIED } from '../support/unhurried.ts'
import { RULES } from './rules.ts'
import { createService, MAIN, type Service } from './service.ts'

/** What each program may do. */
const SCOPES = {
  full: 'users:read,users:write,passwords:verify',
  reader: 'users:read',
  verifier: 'passwords:verify',
  revoked: 'users:read',
} as const

export type KeyName = keyof typeof SCOPES

export type Site = Awaited<ReturnType<typeof openSite>>

/** Starts two services on one PostgreSQL with a standby and one Redis. After an error nothing of it runs. */
export async function openSite() {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-soak-'))
  const closers: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
  /** Stops everything and deletes all files. */
  async function close(): Promise<void> {
    for (let closer = closers.pop(); closer !== undefined; closer = closers.pop()) await closer()
  }
  try {
    const primary = await createPostgresCluster()
    closers.push(primary.remove)
    const standby = await primary.createStandby({ isSynchronous: true })
    const redis = await startRedis()
    closers.push(redis.remove)
    const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`
    const urlOf = (program: string) =>
      `postgres://postgres@${hosts}/postgres?application_name=${program}`
    const limitsFile = join(folder, 'limits.json')
    const writeRules = (version: keyof typeof RULES) =>
      writeFileSync(limitsFile, JSON.stringify(RULES[version]))
    writeRules('first')
    const command = commandOn(urlOf('command'), folder)
    await command('migrate')
    const keys: Partial<Record<KeyName, string>> = {}
    for (const [name, scope] of Object.entries(SCOPES)) {
      const { stdout } = await command('keys', 'create', '--name', name, '--scope', scope)
      keys[name as KeyName] = stdout.trim()
    }
    const shared = {
      ...{ CACHE_STORE: 'redis', REDIS_URL: redis.url, API_KEYS: 'required' },
      ...{ LIMITS_FILE: limitsFile, TRUST_PROXY: 'loopback', ...UNHURRIED },
    }
    const open = (name: string) =>
      createService({
        ...{ name, cwd: folder },
        env: { ...shared, DATABASE_URL: urlOf(`soak-${name}`) },
      })
    const services: readonly [Service, Service] = [await open('a'), await open('b')]
    closers.push(() => Promise.all(services.map(service => service.stop())))
    for (const service of services) await service.start()
    return { folder, services, primary, standby, redis, keys, command, writeRules, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Runs commands of the service on the database. */
function commandOn(url: string, cwd: string) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: url }
  return (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
    new Promise(resolve => {
      execFile(process.execPath, [MAIN, ...args], { cwd, env }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
        resolve({ code, stdout, stderr })
      })
    })
}
