// The servers to measure, and how they are started.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const path = relative => fileURLToPath(new URL(relative, import.meta.url))

export const SERVICE = path('../dist/main.js')

const PROBE = new URL('./usage-probe.mjs', import.meta.url).href

/** A rate limit that no load reaches. */
const LIMITS = { rateLimits: [{ to: 1_000_000_000, within: '1 minute' }] }

const START_PATIENCE_MS = 20_000

/**
 * Servers that are compared, which is done in one run. The `base`, a server of another group, is compared with them. They
 * are measured with all workloads, or with those that are named.
 */
export const GROUPS = {
  sqlite: { title: '' },
  postgres: { title: ', on PostgreSQL' },
  services: { title: ', several services', base: 'service', workloads: ['read', 'mix', 'create'] },
  postgresServices: {
    title: ', several services on PostgreSQL',
    base: 'postgres',
    workloads: ['read', 'mix', 'create'],
  },
  redis: { title: ', with a limit in Redis', base: 'service', workloads: ['read'] },
  keys: { title: ', with an API key', base: 'service', workloads: ['read'] },
  metrics: { title: ', with metrics', base: 'service', workloads: ['read'] },
}

/**
 * Each is of one group, and its `engine` is SQLite unless it names another. `services` is how many processes serve one
 * database, one by default. With `needsKey`, each request sends an API key. With `usesRedis`, limits are counted there.
 * With `isScraped`, a management port is scraped every second. `plain` is the same server without the limit, the key or
 * the port.
 */
export const SERVERS = {
  service: own('this service', 'sqlite'),
  limited: own('this service, a rate limit on every route', 'sqlite', {
    limits: LIMITS,
    plain: 'service',
  }),
  'node-http': peer('node:http, nothing else', 'node-http', 'sqlite'),
  'fastify-bare': peer('Fastify with schemas', 'fastify-bare', 'sqlite'),
  'fastify-full': peer('Fastify with helmet, ETag, rate limit, log', 'fastify-full', 'sqlite'),
  'express-usual': peer('Express the usual way', 'express-usual', 'sqlite'),
  postgres: own('this service', 'postgres', { engine: 'postgres' }),
  'fastify-pg': peer('Fastify with schemas and a pool of `pg`', 'fastify-pg', 'postgres', {
    engine: 'postgres',
  }),
  'services-2': own('2 services', 'services', { services: 2 }),
  'services-4': own('4 services', 'services', { services: 4 }),
  'postgres-services-2': own('2 services', 'postgresServices', { engine: 'postgres', services: 2 }),
  'postgres-services-4': own('4 services', 'postgresServices', { engine: 'postgres', services: 4 }),
  redis: own('this service, a rate limit on every route in Redis', 'redis', {
    limits: LIMITS,
    usesRedis: true,
    plain: 'service',
  }),
  'express-plain': peer('Express without a limit', 'express-limited', 'redis'),
  'express-redis': peer(
    'Express with express-rate-limit and rate-limit-redis',
    'express-limited',
    'redis',
    { usesRedis: true, plain: 'express-plain' },
  ),
  keys: own('this service, an API key required', 'keys', { needsKey: true, plain: 'service' }),
  metrics: own('this service, metrics scraped every second', 'metrics', {
    isScraped: true,
    plain: 'service',
  }),
}

function own(label, group, options) {
  return { label, main: SERVICE, group, ...options }
}

function peer(label, file, group, options) {
  return { label, main: path(`./peers/${file}.mjs`), group, ...options }
}

/** Whether a server is measured with a workload. */
export function takesPart(server, workload) {
  return GROUPS[SERVERS[server].group].workloads?.includes(workload) ?? true
}

/** Runs a command of the service on a database. Resolves with what it prints. */
export async function runService(url, ...args) {
  const env = { ...process.env, DATABASE_URL: url }
  const { stdout } = await promisify(execFile)(process.execPath, [SERVICE, ...args], { env })
  return stdout.trim()
}

/**
 * Starts a server of the comparison with its own copy of the database. Returns the `urls` of its processes, the
 * `managementUrl` of the first, the `headers` that each request must have, `usage()`, which is that of `startProcess`
 * summed over the processes, and `stop()`. The CPU time includes that of PostgreSQL, `postgresMicros`, and that of Redis,
 * `redisMicros`.
 */
export async function startServer({ name, databases, redis, folder }) {
  const { main, limits, usesRedis, needsKey, isScraped, engine, services = 1 } = SERVERS[name]
  const home = join(folder, `${name}-${Date.now()}`)
  mkdirSync(home)
  const database = databases[engine ?? 'sqlite'][main === SERVICE ? 'ours' : 'theirs']
  const { url, cpu, drop } = await database.copy(home)
  const env = main === SERVICE ? { DATABASE_URL: url, PORT: '0' } : { DATABASE: url }
  const headers = {}
  if (usesRedis) Object.assign(env, { CACHE_STORE: 'redis', REDIS_URL: redis.url })
  if (needsKey) {
    const scopes = ['--scope', 'users:read,users:write']
    const key = await runService(url, 'keys', 'create', '--name', 'bench', ...scopes)
    headers.Authorization = `Bearer ${key}`
    env.API_KEYS = 'required'
  }
  if (isScraped) env.MANAGEMENT_PORT = '0'
  if (limits !== undefined) {
    env.LIMITS_FILE = join(home, 'limits.json')
    writeFileSync(env.LIMITS_FILE, JSON.stringify(limits))
  }
  const processes = []
  for (let number = 1; number <= services; number++) {
    const own = join(home, `${number}`)
    mkdirSync(own)
    processes.push(await startProcess({ main, env, home: own }))
  }
  return {
    urls: processes.map(({ url }) => url),
    managementUrl: processes[0].managementUrl,
    headers,
    usage: async () => {
      const usages = await Promise.all(processes.map(process => process.usage()))
      const total = key => usages.reduce((sum, usage) => sum + usage[key], 0)
      const postgresMicros = (await cpu?.()) ?? 0
      const redisMicros = usesRedis ? await redis.cpuMicros() : 0
      const cpuMicros = total('cpuMicros') + postgresMicros + redisMicros
      return { cpuMicros, postgresMicros, redisMicros, peakBytes: total('peakBytes') }
    },
    stop: async () => {
      await Promise.all(processes.map(process => process.stop()))
      rmSync(home, { recursive: true })
      await drop()
    },
  }
}

/**
 * Starts a server in its folder `home`: its `url`, its `managementUrl` if it has a management port, `usage()` (CPU time
 * and peak memory of the process so far), and `stop()`, which removes the folder.
 */
export async function startProcess({ main = SERVICE, env, home }) {
  // The log goes to a file, as under a service manager. Reading it from a pipe would take CPU time from the load.
  const logFile = join(home, 'log')
  const log = openSync(logFile, 'a')
  const child = spawn(process.execPath, ['--import', PROBE, main], {
    env: { ...process.env, NODE_ENV: 'production', ...env },
    cwd: home,
    stdio: ['ignore', log, 'inherit', 'ipc'],
  })
  closeSync(log)
  const url = await announcedUrl(child, logFile)
  return {
    url,
    managementUrl: urlIn(logFile, line => line.includes(MANAGEMENT)),
    usage: async () => {
      child.send('usage')
      const [usage] = await once(child, 'message')
      return usage
    },
    stop: async () => {
      child.kill('SIGTERM')
      await once(child, 'close')
      rmSync(home, { recursive: true })
    },
  }
}

const MANAGEMENT = 'management port listens'

/** The first URL in a log, of the lines that `isMeant`. */
function urlIn(logFile, isMeant) {
  const lines = readFileSync(logFile, 'utf8').split('\n').filter(isMeant)
  return /"url":"([^"]+)"/.exec(lines.join('\n'))?.[1]
}

async function announcedUrl(child, logFile) {
  const deadline = performance.now() + START_PATIENCE_MS
  while (performance.now() < deadline && child.exitCode === null) {
    const url = urlIn(logFile, line => !line.includes(MANAGEMENT))
    if (url !== undefined) return url
    await sleep(20)
  }
  child.kill('SIGKILL')
  throw new Error(`${child.spawnargs.at(-1)} did not start`)
}
