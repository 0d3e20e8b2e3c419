import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createPostgresCluster, type PostgresCluster } from '../support/postgres-cluster.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { UNHURRIED } from '../support/unhurried.ts'
import { RULES } from './rules.ts'
import { createService, type Service } from './service.ts'

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** What each program may do. */
const SCOPES = {
  full: 'users:read,users:write,passwords:verify',
  reader: 'users:read',
  verifier: 'passwords:verify',
  revoked: 'users:read',
} as const

export type KeyName = keyof typeof SCOPES

export interface CommandResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Two services on one PostgreSQL with a standby and one Redis. */
export interface Site {
  readonly folder: string
  readonly services: readonly [Service, Service]
  readonly primary: PostgresCluster
  readonly standby: PostgresCluster
  readonly redis: RedisServer
  readonly keys: Readonly<Record<KeyName, string>>
  /** Runs a command of the service on the database. */
  command(...args: readonly string[]): Promise<CommandResult>
  writeRules(version: keyof typeof RULES): void
  /** Stops everything and deletes all files. */
  close(): Promise<void>
}

/** Starts everything. After an error nothing of it runs. */
export async function openSite(): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-soak-'))
  const closers: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
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
    const writeRules: Site['writeRules'] = version =>
      writeFileSync(join(folder, 'limits.json'), JSON.stringify(RULES[version]))
    writeRules('first')
    const command = commandOn(urlOf('command'), folder)
    await command('migrate')
    const keys = Object.fromEntries(
      await Promise.all(
        Object.entries(SCOPES).map(async ([name, scope]) => {
          const { stdout } = await command('keys', 'create', '--name', name, '--scope', scope)
          return [name, stdout.trim()]
        }),
      ),
    ) as Record<KeyName, string>
    const shared = {
      ...{ CACHE_STORE: 'redis', REDIS_URL: redis.url, API_KEYS: 'required' },
      ...{ LIMITS_FILE: join(folder, 'limits.json'), TRUST_PROXY: 'loopback', ...UNHURRIED },
    }
    const services = await Promise.all(
      (['a', 'b'] as const).map(name =>
        createService({
          ...{ name, main: MAIN, cwd: folder },
          env: { ...shared, DATABASE_URL: urlOf(`soak-${name}`) },
        }),
      ),
    )
    closers.push(() => Promise.all(services.map(service => service.stop())))
    for (const service of services) await service.start()
    const [one, other] = services as [Service, Service]
    return {
      ...{ folder, services: [one, other], primary, standby, redis, keys },
      ...{ command, writeRules, close },
    }
  } catch (error) {
    await close()
    throw error
  }
}

function commandOn(url: string, cwd: string): Site['command'] {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: url }
  return (...args) =>
    new Promise(resolve => {
      execFile(process.execPath, [MAIN, ...args], { cwd, env }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
        resolve({ code, stdout, stderr })
      })
    })
}
