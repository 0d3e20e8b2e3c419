// Imports users and exports them again, as NDJSON and as CSV, and prints the time and peak memory of each step. One import
// is killed half-way and resumed. Fails if an export is not byte for byte equal to what was imported.
// It then makes a backup and restores it: with the service's own commands on SQLite, with pg_dump and pg_restore on PostgreSQL.
// Usage: npm run bench:transfer -- [--engine sqlite] [--write] [USERS]; the default is a million. The engine is sqlite or
// postgres. --write keeps the result in bench/measured.json and writes the documents that are made from it.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { transferTable } from './documents.mjs'
import { currentRun, writePart } from './measured.mjs'
import { readOptions } from './options.mjs'
import { openEngine } from './postgres.mjs'
import { temporaryFolder } from './programs.mjs'
import { runService, SERVICE } from './servers.mjs'

/** Preloaded into each process: writes its peak memory in KB to descriptor 3 when it ends. */
const PROBE = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from 'node:fs'
  process.once('exit', () => writeSync(3, String(process.resourceUsage().maxRSS)))`)}`

const {
  engine,
  sizes: [users],
  write,
} = readOptions({ users: [[1_000_000], 1000, 10_000_000] })
const run = currentRun()
const postgres = await openEngine(engine)
const folder = temporaryFolder()
const file = name => join(folder, name)
const input = file('users.ndjson')
const urls = {}
const steps = []
try {
  await writeUsers()
  for (const name of ['a', 'b', 'c', 'restored']) {
    // On PostgreSQL, `restored` never gets any tables from the service.
    urls[name] = postgres === undefined ? file(`${name}.db`) : await postgres.createDatabase()
  }
  await measure('import NDJSON', 'a', ['import', input])
  await measure('import CSV', 'b', ['import', await exported('a', 'csv')])
  await killHalfWay('c', ['import', input])
  await measure('resume the import that was killed half-way', 'c', ['import', input, '--resume'])
  await measure('export NDJSON', 'a', ['export', file('a.ndjson')])
  await (postgres === undefined ? measureBackup() : measureDump())
  mustBeEqual(input, file('a.ndjson'))
  mustBeEqual(file('a.csv'), await exported('b', 'csv'))
  mustBeEqual(input, await exported('c', 'ndjson'))
  mustBeEqual(input, await exported('restored', 'ndjson'))
} finally {
  await postgres?.close()
}
const result = { run, users, bytes: statSync(input).size, steps }
console.log(`${transferTable(result)}\n\nThe exports are byte for byte equal to what was imported.`)
if (write) writePart('transfer', engine, result)

async function measureBackup() {
  await measure('backup, with its check', 'a', ['backup', file('backup.db')])
  await measure('restore, with its check', 'restored', ['restore', file('backup.db')])
}

async function measureDump() {
  const dump = file('users.dump')
  const program = name => [postgres.program(name), '--no-owner']
  await measure('pg_dump', 'a', ['--format=custom', `--file=${dump}`, urls.a], program('pg_dump'))
  const options = ['--exit-on-error', '--single-transaction', `--dbname=${urls.restored}`]
  await measure('pg_restore', 'restored', [...options, dump], program('pg_restore'))
  const startedAt = performance.now()
  await postgres.query(urls.restored, 'VACUUM (FREEZE, ANALYZE)')
  addStep('VACUUM (FREEZE, ANALYZE) of all tables after it', startedAt)
}

/** Runs a command of the service, or a program that does not say how much memory it took. */
async function measure(
  what,
  database,
  args,
  program = [process.execPath, '--import', PROBE, SERVICE],
) {
  const startedAt = performance.now()
  const child = spawn(program[0], [...program.slice(1), ...args], {
    env: environment(database),
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  let peakKb = ''
  child.stdio[3].on('data', chunk => {
    peakKb += chunk
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${what} ended with ${code}`)
  addStep(what, startedAt, peakKb === '' ? undefined : Math.round(Number(peakKb) / 1024))
}

function addStep(what, startedAt, peakMb) {
  steps.push({ what, seconds: (performance.now() - startedAt) / 1000, peakMb })
}

/** The file of a new export. */
async function exported(database, format) {
  const path = file(`${database}.${format}`)
  await runService(urls[database], 'export', path)
  return path
}

async function writeUsers() {
  const stream = createWriteStream(input)
  for (let id = 1; id <= users; id++) {
    const time = new Date(1.6e12 + id * 10_000).toISOString()
    const name = `Jos\u00e9 "${(id * 7919) % 100_000}", the ${id}th`
    const email = `${((id * 2654435761) >>> 0).toString(16)}.${id}@example.com`
    const user = { id, name, email, created_at: time, updated_at: time }
    if (!stream.write(`${JSON.stringify(user)}\n`)) await once(stream, 'drain')
  }
  stream.end()
  await once(stream, 'finish')
}

function environment(database) {
  return { ...process.env, DATABASE_URL: urls[database] }
}

/** Kills an import after half of the time that the first one took. */
async function killHalfWay(database, args) {
  const child = spawn(process.execPath, [SERVICE, ...args], {
    env: environment(database),
    stdio: 'ignore',
  })
  const closed = once(child, 'close')
  await sleep(steps[0].seconds * 500)
  if (!child.kill('SIGKILL')) throw new Error('the import was over before it could be killed')
  await closed
}

/** Throws if two files differ. */
function mustBeEqual(one, other) {
  execFileSync('cmp', [one, other], { stdio: 'inherit' })
}
