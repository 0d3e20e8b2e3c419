// Imports users and exports them again, as NDJSON and as CSV, and prints the time and peak memory of each step. One import
// is killed half-way and resumed. Fails if an export is not byte for byte equal to what was imported.
// Usage: npm run bench:transfer -- [USERS]; the default is a million.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { machine, table } from './report.mjs'
import { SERVICE } from './servers.mjs'

const MAX_USERS = 10_000_000

/** Preloaded into each process: writes its peak memory in KB to descriptor 3 when it ends. */
const PROBE = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from 'node:fs'
  process.once('exit', () => writeSync(3, String(process.resourceUsage().maxRSS)))`)}`

const users = Number(process.argv[2] ?? 1_000_000)
if (!Number.isInteger(users) || users < 1000 || users > MAX_USERS) {
  console.error(`USERS must be a whole number from 1000 to ${MAX_USERS}`)
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
await measure('export CSV again', 'b', ['export', join(folder, 'b.csv')])
await killHalfWay('c', ['import', input])
await measure('resume the import that was killed half-way', 'c', ['import', input, '--resume'])
await measure('export NDJSON after the resumed import', 'c', ['export', join(folder, 'c.ndjson')])
await mustBeEqual(input, join(folder, 'a.ndjson'))
await mustBeEqual(join(folder, 'a.csv'), join(folder, 'b.csv'))
await mustBeEqual(input, join(folder, 'c.ndjson'))

console.log(machine())
console.log(`${users.toLocaleString('en')} users, ${Math.round(statSync(input).size / 1e6)} MB\n`)
console.log(
  table(
    ['', 's', 'users/s', 'peak memory, MB'],
    rows.map(({ what, seconds, peakMb }) => {
      const rate = Math.round(users / seconds).toLocaleString('en')
      return [what, seconds.toFixed(1), rate, peakMb]
    }),
  ),
)
console.log('\nThe exports are byte for byte equal to what was imported.')

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
  rows.push({ what, seconds, peakMb: Math.round(Number(peakKb) / 1024) })
}

async function killHalfWay(database, args) {
  const child = spawn(process.execPath, [SERVICE, ...args], {
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
    // Not created yet.
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
