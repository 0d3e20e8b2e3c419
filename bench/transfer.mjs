// Imports users and exports them again, as NDJSON and as CSV, and prints time and peak memory of each; one import is killed
// half-way and resumed. Fails where what comes out is not byte for byte what went in.
// Usage: npm run bench:transfer -- [USERS], a million if left out.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream, mkdtempSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url))
const MAX_USERS = 10_000_000

/** Tells its own peak, in KB, when it ends. */
const PROBE = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from 'node:fs'
  process.once('exit', () => writeSync(3, String(process.resourceUsage().maxRSS)))`)}`

const users = Number(process.argv[2] ?? 1_000_000)
if (!Number.isInteger(users) || users < 1000 || users > MAX_USERS) {
  console.error(`USERS is a whole number from 1000 to ${MAX_USERS}`)
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'user-records-transfer-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
process.once('SIGINT', () => process.exit(130))

const input = join(folder, 'users.ndjson')
await writeUsers(input)
const rows = []
await measure('import NDJSON', 'a', ['import', input])
await measure('export NDJSON', 'a', ['export', join(folder, 'a.ndjson')])
await measure('export CSV', 'a', ['export', join(folder, 'a.csv')])
await measure('import CSV', 'b', ['import', join(folder, 'a.csv')])
await measure('export CSV, once more', 'b', ['export', join(folder, 'b.csv')])
await killHalfWay('c', ['import', input])
await measure('resume an import that was killed half-way', 'c', ['import', input, '--resume'])
await measure('export what was resumed', 'c', ['export', join(folder, 'c.ndjson')])
await mustBeEqual(input, join(folder, 'a.ndjson'))
await mustBeEqual(join(folder, 'a.csv'), join(folder, 'b.csv'))
await mustBeEqual(input, join(folder, 'c.ndjson'))

console.log(`Node ${process.version}, ${availableParallelism()} x ${cpus()[0]?.model}`)
console.log(`${users.toLocaleString('en')} users, ${Math.round(statSync(input).size / 1e6)} MB\n`)
console.log('| | s | users/s | peak memory, MB |\n|---|---:|---:|---:|')
for (const { what, seconds, peakMb } of rows) {
  const rate = Math.round(users / seconds).toLocaleString('en')
  console.log(`| ${what} | ${seconds.toFixed(1)} | ${rate} | ${peakMb} |`)
}
console.log('\nWhat came out is byte for byte what went in.')

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
  return { ...process.env, DATABASE_URL: join(folder, `${database}.db`) }
}

async function measure(what, database, args) {
  const startedAt = performance.now()
  const child = spawn(process.execPath, ['--import', PROBE, MAIN, ...args], {
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
  rows.push({ what, seconds, peakMb: Math.round(Number(peakKb) / 1024) })
}

async function killHalfWay(database, args) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: environment(database),
    stdio: 'ignore',
  })
  const closed = once(child, 'close')
  while (countUsers(database) < users / 2 && child.exitCode === null) await sleep(5)
  child.kill('SIGKILL')
  await closed
  const there = countUsers(database)
  if (there >= users) throw new Error('the import was over before it could be killed')
}

function countUsers(database) {
  try {
    const opened = new Database(join(folder, `${database}.db`), { readonly: true })
    try {
      return opened.prepare('SELECT user_count FROM users_summary').pluck().get()
    } finally {
      opened.close()
    }
  } catch {
    // Not yet made.
    return 0
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
