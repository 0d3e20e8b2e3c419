// The PostgreSQL server of a benchmark, which it starts for itself: a durable one, with the settings that initdb writes.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import pg from 'pg'
import { freePort, startProgram, whenReady } from './programs.mjs'

const DEBIAN = '/usr/lib/postgresql'

/** PostgreSQL refuses to run as root. This is the user nobody of Linux. */
const OWNER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

const RUN = '"$2/postgres" -D "$1/data" -h 127.0.0.1 -p "$3" -k "$1"'

const SELECT_PROCESSES = 'SELECT pid FROM pg_stat_activity WHERE datname = $1 OR datname IS NULL'

/** As `openPostgres` for the engine postgres; undefined for another one. Ends the process if there is no server. */
export async function openEngine(engine) {
  return engine === 'postgres' ? ((await openPostgres()) ?? process.exit(0)) : undefined
}

/**
 * `createDatabase(template)` returns the URL of a new database, `drop(url)` removes it, `query(url, sql)` runs statements,
 * `cpuOf(url)` returns a function for the CPU time used so far, `program(name)` the path of a program such as pg_dump.
 * `close()` ends the server and deletes all of it. Says so and returns undefined if no server is installed.
 */
export async function openPostgres() {
  const binaries = findBinaries()
  if (binaries === undefined) {
    console.error('skipped on PostgreSQL: no server is installed')
    return undefined
  }
  const { url: serverUrl, stop } = await startServer(binaries)
  const admin = await whenReady(() => connect(serverUrl))
  return {
    createDatabase: async template => {
      const name = `bench_${randomBytes(6).toString('hex')}`
      const copy = template === undefined ? '' : ` TEMPLATE ${nameIn(template)}`
      await admin.query(`CREATE DATABASE ${name}${copy}`)
      return new URL(name, serverUrl).href
    },
    drop: url => admin.query(`DROP DATABASE ${nameIn(url)} WITH (FORCE)`),
    query: async (url, sql, values) => {
      const client = await connect(url)
      return client.query(sql, values).finally(() => client.end())
    },
    cpuOf: url => createCpuMeter(admin, nameIn(url)),
    program: name => {
      const path = join(binaries, name)
      // Clients may be installed elsewhere.
      return existsSync(path) ? path : name
    },
    close: async () => {
      await admin.end()
      await stop()
    },
  }
}

/** Microseconds of the backends of a database and of the processes in the background. Those that ended count too. */
function createCpuMeter(admin, database) {
  const microsByPid = new Map()
  return async () => {
    const { rows } = await admin.query(SELECT_PROCESSES, [database])
    for (const { pid } of rows) {
      const micros = microsOf(pid)
      if (micros !== undefined) microsByPid.set(pid, micros)
    }
    return [...microsByPid.values()].reduce((sum, micros) => sum + micros, 0)
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

async function startServer(binaries) {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-bench-pg-'))
  if (OWNER.uid !== undefined) chownSync(folder, OWNER.uid, OWNER.gid)
  const options = { cwd: folder, env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }, ...OWNER }
  const access = ['--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C']
  execFileSync(join(binaries, 'initdb'), ['-D', join(folder, 'data'), ...access], options)
  const port = await freePort()
  const args = [binaries, String(port)]
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    stop: startProgram(RUN, { folder, args, signal: 'INT', options }),
  }
}

function findBinaries() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).toSorted((a, b) => b - a) : []
  const folders = versions.map(version => join(DEBIAN, version, 'bin'))
  return [...process.env.PATH.split(delimiter), ...folders].find(
    folder => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  )
}

async function connect(url) {
  const client = new pg.Client(url)
  await client.connect()
  return client
}

function nameIn(url) {
  return new URL(url).pathname.slice(1)
}
