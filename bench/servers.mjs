// Starts the servers to measure, each with a database of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { CREATE_TABLE } from './peers/users-table.mjs'

const path = relative => fileURLToPath(new URL(relative, import.meta.url))

export const SERVICE = path('../dist/main.js')

const PROBE = new URL('./usage-probe.mjs', import.meta.url).href

/** A rate limit that no load reaches, and two rules for paths that only refused requests ask for. */
const LIMITS = {
  rateLimits: [{ to: 1_000_000_000, within: '1 minute' }],
  blocklist: [{ name: 'blocked', path: '/blocked' }],
  throttle: [{ name: 'throttled', path: '/throttled', limit: 1, period: '1 day' }],
}

const START_PATIENCE_MS = 20_000

/** The others are compared with the first one. */
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
}

const FILL = names => `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @users)
  INSERT INTO users (name, email, created_at, updated_at${names && ', name_lower'})
  SELECT 'User ' || i, printf('%08x.%d@example.com', i * 2654435761 & 0xffffffff, i), time, time${names}
  FROM (SELECT i, strftime('%Y-%m-%dT%H:%M:%fZ', 1600000000 + i * 10, 'unixepoch') AS time FROM serial)`

/** Creates two databases with the same users, one for the service and one for the peers. Each start copies one of them. */
export async function makeDatabases(folder, users) {
  const ours = join(folder, 'service.db')
  const theirs = join(folder, 'peers.db')
  await migrate(ours)
  for (const [file, schema, names] of [
    [ours, '', `, 'user ' || i`],
    [theirs, CREATE_TABLE, ''],
  ]) {
    const database = new Database(file)
    database.exec(schema)
    database.prepare(FILL(names)).run({ users })
    database.pragma('journal_mode = DELETE')
    database.close()
  }
  return { ours, theirs }
}

/** Creates an empty database of the service. */
export async function migrate(path) {
  const migration = spawn(process.execPath, [SERVICE, 'migrate'], {
    env: { ...process.env, DATABASE_URL: path },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await once(migration, 'close')
}

/** Starts a server of the comparison with its own copy of the database; returns what `startProcess` returns. */
export async function startServer({ name, databases, folder }) {
  const { main, limits } = SERVERS[name]
  const home = join(folder, `${name}-${Date.now()}`)
  mkdirSync(home)
  const database = join(home, 'users.db')
  copyFileSync(main === SERVICE ? databases.ours : databases.theirs, database)
  const env = main === SERVICE ? { DATABASE_URL: database, PORT: '0' } : { DATABASE: database }
  if (limits !== undefined) {
    env.LIMITS_FILE = join(home, 'limits.json')
    writeFileSync(env.LIMITS_FILE, JSON.stringify(limits))
  }
  return startProcess({ main, env, home })
}

/**
 * Starts a server in its folder `home`: its `url`, `usage()` (CPU time and peak memory of the process so far), and `stop()`,
 * which removes the folder.
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

async function announcedUrl(child, logFile) {
  const deadline = performance.now() + START_PATIENCE_MS
  while (performance.now() < deadline && child.exitCode === null) {
    const url = /"url":"([^"]+)"/.exec(readFileSync(logFile, 'utf8'))?.[1]
    if (url !== undefined) return url
    await sleep(20)
  }
  child.kill('SIGKILL')
  throw new Error(`${child.spawnargs.at(-1)} did not start`)
}
