// Starts the servers to measure, each with a database of its own.
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

/** A rate limit that no load reaches, and two rules for paths that only refused requests ask for. */
const LIMITS = {
  rateLimits: [{ to: 1_000_000_000, within: '1 minute' }],
  blocklist: [{ name: 'blocked', path: '/blocked' }],
  throttle: [{ name: 'throttled', path: '/throttled', limit: 1, period: '1 day' }],
}

/** Rules that no request meets. */
const HUNDRED_RULES = {
  track: Array.from({ length: 100 }, (_, index) => ({ name: `rule ${index}`, path: `/${index}` })),
}

const START_PATIENCE_MS = 20_000

/**
 * The others are compared with the first one of their `group`. Without one, that is their `engine`, which is SQLite unless they
 * name another. With `services`, so many of it serve one database. With `needsKey`, each request sends an API key. With `isScraped`, it has a
 * management port, which is scraped every second. `plain` is the same server without what is measured: without a limit that is
 * counted in Redis, without keys, or without a management port.
 */
export const SERVERS = {
  service: { label: 'this service', main: SERVICE },
  limited: {
    label: 'this service, a rate limit on every route',
    main: SERVICE,
    limits: LIMITS,
  },
  'node-http': { label: 'node:http, nothing else', main: path('./peers/node-http.mjs') },
  'fastify-bare': { label: 'Fastify with schemas', main: path('./peers/fastify-bare.mjs') },
  'fastify-full': {
    label: 'Fastify with helmet, ETag, rate limit, log',
    main: path('./peers/fastify-full.mjs'),
  },
  'express-usual': { label: 'Express the usual way', main: path('./peers/express-usual.mjs') },
  postgres: { label: 'this service', main: SERVICE, engine: 'postgres' },
  'fastify-pg': {
    label: 'Fastify with schemas and a pool of `pg`',
    main: path('./peers/fastify-pg.mjs'),
    engine: 'postgres',
  },
  'services-2': { label: '2 services', main: SERVICE, group: 'services', services: 2 },
  'services-4': { label: '4 services', main: SERVICE, group: 'services', services: 4 },
  'postgres-services-2': {
    label: '2 services',
    main: SERVICE,
    engine: 'postgres',
    group: 'postgresServices',
    services: 2,
  },
  'postgres-services-4': {
    label: '4 services',
    main: SERVICE,
    engine: 'postgres',
    group: 'postgresServices',
    services: 4,
  },
  redis: {
    label: 'this service, a rate limit on every route in Redis',
    main: SERVICE,
    group: 'redis',
    limits: LIMITS,
    plain: 'service',
  },
  'express-plain': {
    label: 'Express without a limit',
    main: path('./peers/express-limited.mjs'),
    group: 'redis',
  },
  'express-redis': {
    label: 'Express with express-rate-limit and rate-limit-redis',
    main: path('./peers/express-limited.mjs'),
    group: 'redis',
    plain: 'express-plain',
  },
  keys: {
    label: 'this service, an API key required',
    main: SERVICE,
    group: 'keys',
    needsKey: true,
    plain: 'service',
  },
  metrics: {
    label: 'this service, metrics scraped every second',
    main: SERVICE,
    group: 'metrics',
    isScraped: true,
    plain: 'service',
  },
  'metrics-rules': {
    label: 'this service with 100 rules, metrics scraped every second',
    main: SERVICE,
    group: 'metrics',
    isScraped: true,
    limits: HUNDRED_RULES,
  },
}

/** Whether a server counts limits in Redis. */
export function needsRedis(name) {
  const { group, plain } = SERVERS[name]
  return group === 'redis' && plain !== undefined
}

/** Creates an empty database of the service. With `--reindex` it indexes users that SQL has written. */
export async function migrate(url, ...args) {
  const migration = spawn(process.execPath, [SERVICE, 'migrate', ...args], {
    env: { ...process.env, DATABASE_URL: url },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await once(migration, 'close')
}

/** Creates an API key in a database of the service, and returns it. */
async function createKey(url) {
  const args = ['keys', 'create', '--name', 'bench', '--scope', 'users:read,users:write']
  const env = { ...process.env, DATABASE_URL: url }
  const { stdout } = await promisify(execFile)(process.execPath, [SERVICE, ...args], { env })
  return stdout.trim()
}

/**
 * Starts a server of the comparison with its own copy of the database. Returns the `urls` of its processes, the `managementUrl` of
 * the first, the `headers` that each request must have, `usage()`, which is that of `startProcess` summed over the processes, and
 * `stop()`. On PostgreSQL the CPU time includes that of the server's backends, `postgresMicros`. Its other processes take
 * `backgroundMicros` besides. With Redis the CPU time includes that of Redis, `redisMicros`.
 */
export async function startServer({ name, databases, redis, folder }) {
  const { main, limits, engine = 'sqlite', services = 1, needsKey, isScraped } = SERVERS[name]
  const home = join(folder, `${name}-${Date.now()}`)
  mkdirSync(home)
  const { url, cpu, drop } = await databases[engine].copy(main === SERVICE, home)
  const env = main === SERVICE ? { DATABASE_URL: url, PORT: '0' } : { DATABASE: url }
  if (needsRedis(name)) Object.assign(env, { CACHE_STORE: 'redis', REDIS_URL: redis.url })
  const headers = needsKey ? { Authorization: `Bearer ${await createKey(url)}` } : {}
  if (needsKey) env.API_KEYS = 'required'
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
      const { clientMicros = 0, backgroundMicros = 0 } = (await cpu?.()) ?? {}
      const redisMicros = needsRedis(name) ? await redis.cpuMicros() : 0
      return {
        cpuMicros: total('cpuMicros') + clientMicros + redisMicros,
        postgresMicros: clientMicros,
        backgroundMicros,
        redisMicros,
        peakBytes: total('peakBytes'),
      }
    },
    stop: async () => {
      await Promise.all(processes.map(process => process.stop()))
      rmSync(home, { recursive: true })
      await drop()
    },
  }
}

/**
 * Starts a server in its folder `home`: its `url`, its `managementUrl` if it has a management port, `usage()` (CPU time and peak
 * memory of the process so far), and `stop()`, which removes the folder.
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
