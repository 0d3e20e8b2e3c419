// Imports users and exports them again, as NDJSON and as CSV, and prints the time and peak memory of each step. One import
// is killed half-way and resumed. Fails if an export is not byte for byte equal to what was imported.
// It then makes a backup and restores it: with the service's own commands on SQLite, with pg_dump and pg_restore on PostgreSQL.
// Usage: npm run bench:transfer -- [--engine sqlite] [--write] [USERS]; the default is a million. The engine is sqlite or
// postgres. --write keeps the result in bench/measured.json and writes the documents that are made from it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { currentRun, writePart } from './measured.mjs'
import { NO_POSTGRES, openPostgres } from './postgres.mjs'
import { migrate, SERVICE } from './servers.mjs'
import { transferTable } from './tables.mjs'

const MAX_USERS = 10_000_000

/** Preloaded into each process: writes its peak memory in KB to descriptor 3 when it ends. */
const PROBE = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from 'node:fs'
  process.once('exit', () => writeSync(3, String(process.resourceUsage().maxRSS)))`)}`

const SELECT_COUNT = 'SELECT sum(user_count) AS count FROM users_summary'

const { values: options, positionals } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    write: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const users = Number(positionals[0] ?? 1_000_000)
if (!Number.isInteger(users) || users < 1000 || users > MAX_USERS) {
  console.error(`USERS must be a whole number from 1000 to ${MAX_USERS}`)
  process.exit(2)
}
if (!['sqlite', 'postgres'].includes(options.engine)) {
  console.error('--engine must be sqlite or postgres')
  process.exit(2)
}

const run = currentRun()
const postgres = options.engine === 'postgres' ? await openPostgres() : undefined
if (options.engine === 'postgres' && postgres === undefined) {
  console.error(NO_POSTGRES)
  process.exit(0)
}
const folder = mkdtempSync(join(tmpdir(), 'user-records-transfer-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
process.once('SIGINT', async () => {
  await postgres?.close()
  process.exit(130)
})

const input = join(folder, 'users.ndjson')
const urls = {}
const steps = []
try {
  await writeUsers(input)
  for (const name of ['a', 'b', 'c', 'restored']) urls[name] = await createDatabase(name)
  await measure('import NDJSON', 'a', ['import', input])
  await measure('export NDJSON', 'a', ['export', join(folder, 'a.ndjson')])
  await measure('export CSV', 'a', ['export', join(folder, 'a.csv')])
  await measure('import CSV', 'b', ['import', join(folder, 'a.csv')])
  await measure('export CSV again', 'b', ['export', join(folder, 'b.csv')])
  await killHalfWay('c', ['import', input])
  await measure('resume the import that was killed half-way', 'c', ['import', input, '--resume'])
  await measure('export NDJSON after the resumed import', 'c', ['export', join(folder, 'c.ndjson')])
  await (postgres === undefined ? measureBackup() : measureDump())
  await measure('export NDJSON after the restore', 'restored', ['export', join(folder, 'r.ndjson')])
  await mustBeEqual(input, join(folder, 'a.ndjson'))
  await mustBeEqual(join(folder, 'a.csv'), join(folder, 'b.csv'))
  await mustBeEqual(input, join(folder, 'c.ndjson'))
  await mustBeEqual(input, join(folder, 'r.ndjson'))
} finally {
  await postgres?.close()
}

const result = { run, users, bytes: statSync(input).size, steps }
console.log(transferTable(result))
console.log('\nThe exports are byte for byte equal to what was imported.')
if (options.write) writePart('transfer', options.engine, result)

/** The URL of a database. For PostgreSQL it has no tables yet, and `restored` never gets any from the service. */
async function createDatabase(name) {
  return postgres === undefined ? join(folder, `${name}.db`) : await postgres.createDatabase()
}

async function measureBackup() {
  const file = join(folder, 'backup.db')
  await measure('backup, with its check', 'a', ['backup', file])
  await measure('restore, with its check', 'restored', ['restore', file])
}

async function measureDump() {
  const file = join(folder, 'users.dump')
  const dump = ['--format=custom', '--no-owner', `--file=${file}`, urls.a]
  await measureProgram('pg_dump', postgres.program('pg_dump'), dump)
  const restore = ['--no-owner', '--exit-on-error', '--single-transaction']
  restore.push(`--dbname=${urls.restored}`, file)
  await measureProgram('pg_restore', postgres.program('pg_restore'), restore)
  const startedAt = performance.now()
  await postgres.query(urls.restored, 'VACUUM (FREEZE, ANALYZE)')
  const seconds = (performance.now() - startedAt) / 1000
  steps.push({ what: 'VACUUM (FREEZE, ANALYZE) of all tables after it', seconds })
}

async function measureProgram(what, program, args) {
  const startedAt = performance.now()
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${what} ended with ${code}`)
  steps.push({ what, seconds: (performance.now() - startedAt) / 1000 })
}

async function writeUsers(path) {
  const file = createWriteStream(path)
  for (let id = 1; id <= users; id++) {
    const time = new Date(1.6e12 + id * 10_000).toISOString()
    const name = `Jos\u00e9 "${(id * 7919) % 100_000}", the ${id}th`
    const email = `${((id * 2654435761) >>> 0).toString(16)}.${id}@example.com`
    const user = { id, name, email, created_at: time, updated_at: time }
    if (!file.write(`${JSON.stringify(user)}\n`)) await once(file, 'drain')
  }
  file.end()
  await once(file, 'finish')
}

function environment(database) {
  return { ...process.env, DATABASE_URL: urls[database] }
}

async function measure(what, database, args) {
  const startedAt = performance.now()
  const child = spawn(process.execPath, ['--import', PROBE, SERVICE, ...args], {
    env: environment(database),
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  let peakKb = ''
  child.stdio[3].on('data', chunk => {
    peakKb += chunk
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  const seconds = (performance.now() - startedAt) / 1000
  steps.push({ what, seconds, peakMb: Math.round(Number(peakKb) / 1024) })
}

async function killHalfWay(database, args) {
  await migrate(urls[database])
  const child = spawn(process.execPath, [SERVICE, ...args], {
    env: environment(database),
    stdio: 'ignore',
  })
  const closed = once(child, 'close')
  while ((await countUsers(database)) < users / 2 && child.exitCode === null) await sleep(5)
  child.kill('SIGKILL')
  await closed
  if ((await countUsers(database)) >= users) {
    throw new Error('the import was over before it could be killed')
  }
}

async function countUsers(database) {
  if (postgres !== undefined) {
    const { rows } = await postgres.query(urls[database], SELECT_COUNT)
    return Number(rows[0].count)
  }
  const opened = new Database(urls[database], { readonly: true })
  try {
    return opened.prepare('SELECT user_count FROM users_summary').pluck().get()
  } finally {
    opened.close()
  }
}

async function mustBeEqual(one, other) {
  const others = createReadStream(other)[Symbol.asyncIterator]()
  for await (const chunk of createReadStream(one)) {
    const { value } = await others.next()
    if (!chunk.equals(value ?? Buffer.alloc(0))) throw new Error(`${one} and ${other} differ`)
  }
  if (!(await others.next()).done) throw new Error(`${other} has more than ${one}`)
}
