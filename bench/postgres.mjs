// The PostgreSQL server of a benchmark: that of BENCH_POSTGRES_URL or TEST_POSTGRES_URL, else a durable one of its own.
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chownSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from './free-port.mjs'

const DEBIAN = '/usr/lib/postgresql'

/** PostgreSQL refuses to run as root. This is the user nobody of Linux. */
const OWNER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

const START_PATIENCE_MS = 20_000

/** Runs the server until the input ends, however this process ends. Then it deletes the folder. */
const RUN = `
  "$1/postgres" -D "$2/data" -h 127.0.0.1 -p "$3" -k "$2" &
  cat > /dev/null
  kill -INT $!
  wait $!
  rm -rf "$2"`

const SELECT_PROCESSES = `
  SELECT pid, backend_type = 'client backend' AS "isClient" FROM pg_stat_activity
  WHERE datname = $1 OR datname IS NULL`

/** Said when `openPostgres` finds no server. */
export const NO_POSTGRES =
  'skipped on PostgreSQL: no server is installed, and BENCH_POSTGRES_URL is not set'

/**
 * `createDatabase(template)` returns the URL of a new database, `drop(url)` removes it, `query(url, sql)` runs statements,
 * `cpuOf(url)` returns a function for the CPU time used so far, `program(name)` the path of a program such as pg_dump. `close()` drops what is left. Undefined without a server.
 */
export async function openPostgres() {
  const given = process.env.BENCH_POSTGRES_URL || process.env.TEST_POSTGRES_URL
  const server = given ? { url: given, stop: async () => {} } : await startServer()
  if (server === undefined) return undefined
  const admin = await connect(server.url)
  const created = new Set()

  async function createDatabase(template) {
    const name = `user_records_bench_${randomBytes(6).toString('hex')}`
    const copy = template === undefined ? '' : ` TEMPLATE ${nameIn(template)}`
    await admin.query(`CREATE DATABASE ${name}${copy}`)
    const url = new URL(server.url)
    url.pathname = name
    created.add(url.href)
    return url.href
  }

  async function drop(url) {
    await admin.query(`DROP DATABASE ${nameIn(url)} WITH (FORCE)`)
    created.delete(url)
  }

  return {
    createDatabase,
    drop,
    query: async (url, sql, values) => {
      const client = await connect(url)
      return client.query(sql, values).finally(() => client.end())
    },
    cpuOf: url => createCpuMeter(admin, nameIn(url)),
    program: name => findProgram(name),
    close: async () => {
      for (const url of created) await drop(url)
      await admin.end()
      await server.stop()
    },
  }
}

/** Microseconds of the backends of a database, and of the processes in the background. Processes that ended count too. */
function createCpuMeter(admin, database) {
  const clients = new Map()
  const others = new Map()
  return async () => {
    const { rows } = await admin.query(SELECT_PROCESSES, [database])
    for (const { pid, isClient } of rows) {
      const micros = microsOf(pid)
      if (micros !== undefined) (isClient ? clients : others).set(pid, micros)
    }
    return { clientMicros: sumOf(clients), backgroundMicros: sumOf(others) }
  }
}

/** Undefined for a process that has just ended. */
function microsOf(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1000
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(error.code) && existsSync('/proc/self/schedstat')) return
    throw error
  }
}

async function startServer() {
  const binaries = findBinaries()
  if (binaries === undefined) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'user-records-bench-pg-'))
  if (OWNER.uid !== undefined) chownSync(folder, OWNER.uid, OWNER.gid)
  const options = { cwd: folder, env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }, ...OWNER }
  const access = ['--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C']
  execFileSync(join(binaries, 'initdb'), ['-D', join(folder, 'data'), ...access], options)
  const port = await freePort()
  const log = openSync(join(folder, 'log'), 'a')
  const child = spawn('/bin/sh', ['-c', RUN, 'sh', binaries, folder, String(port)], {
    ...options,
    stdio: ['pipe', log, log],
    // Ctrl-C is for this process, at whose end the server ends.
    detached: true,
  })
  closeSync(log)
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    stop: async () => {
      child.stdin.end()
      await once(child, 'close')
    },
  }
}

function findBinaries() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).toSorted((a, b) => b - a) : []
  const folders = versions.map(version => join(DEBIAN, version, 'bin'))
  return [...process.env.PATH.split(delimiter), ...folders].find(
    folder => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  )
}

/** A program beside the server, otherwise one that is on the PATH. */
function findProgram(name) {
  const path = join(findBinaries() ?? '', name)
  return existsSync(path) ? path : name
}

/** Waits for a server that has just been started. */
async function connect(url) {
  const deadline = performance.now() + START_PATIENCE_MS
  for (;;) {
    const client = new pg.Client(url)
    try {
      await client.connect()
      return client
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(50)
    }
  }
}

function nameIn(url) {
  return new URL(url).pathname.slice(1)
}

function sumOf(values) {
  return [...values.values()].reduce((sum, value) => sum + value, 0)
}
