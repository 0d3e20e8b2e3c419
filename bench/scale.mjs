// Measures how the latency of requests depends on the number of users: fills a database, sends requests to the built
// service, prints a table.
// Usage: npm run bench:scale -- [USERS ...], such as 10000 1000000; without USERS: 10,000, 100,000 and 1,000,000.
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { machine, median, table } from './report.mjs'
import { migrate, startProcess } from './servers.mjs'

const DEFAULT_SIZES = [10_000, 100_000, 1_000_000]
const MIN_USERS = 10_000
const MAX_USERS = 10_000_000
const CHUNK = 50_000
const SAMPLES = 400
const WARM_UP = 100

// Of ten million users a hundred share each name. Addresses are in random order. One user was created every ten seconds.
const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT @from UNION ALL SELECT i + 1 FROM serial WHERE i < @to)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT 'Name ' || (i * 7919 % 100000), 'name ' || (i * 7919 % 100000),
    printf('%08x.%d@example.com', i * 2654435761 & 0xffffffff, i), time, time
  FROM (SELECT i, strftime('%Y-%m-%dT%H:%M:%fZ', 1600000000 + i * 10, 'unixepoch') AS time FROM serial)`

const sizes = process.argv.slice(2).map(Number)
if (sizes.some(size => !Number.isInteger(size) || size < MIN_USERS || size > MAX_USERS)) {
  console.error(`USERS must be whole numbers from ${MIN_USERS} to ${MAX_USERS}`)
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'user-records-scale-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
process.once('SIGINT', () => process.exit(130))

const rows = []
for (const size of sizes.length > 0 ? sizes : DEFAULT_SIZES) rows.push(await measure(size))
const [, ...names] = Object.keys(rows[0])
console.log(`\n${machine()}\n`)
console.log(
  table(
    ['ms, median', ...rows.map(({ users }) => users)],
    names.map(name => [name, ...rows.map(row => row[name])]),
  ),
)

async function measure(size) {
  const home = join(folder, String(size))
  mkdirSync(home)
  const path = join(home, 'users.db')
  await migrate(path)
  const filledMs = fill(path, size)
  const env = { DATABASE_URL: path, PORT: '0', LOG_LEVEL: 'info' }
  const service = await startProcess({ env, home })
  try {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const get = target => ask(agent, service.url, target)
    const someId = () => 1 + Math.floor(Math.random() * size)
    const deepPage = Math.floor(size / 2 / 100)
    let lists = 0
    // A different length each time, 100 on average, because the service remembers recent lists while nothing changes.
    const length = () => 70 + (lists++ % 61)
    const row = {
      users: size.toLocaleString('en'),
      'fill, s': (filledMs / 1000).toFixed(1),
      'file, MB': Math.round(statSync(path).size / 1e6),
    }
    for (const sort of ['id', 'name', '-created_at']) {
      row[`first page by ${sort}`] = await medianMs(() =>
        get(`/users?sort=${sort}&per_page=${length()}`),
      )
      const { headers } = await get(`/users?sort=${sort}&page=${deepPage}`)
      const next = /<([^>]*)>; rel="next"/.exec(headers.link)[1]
      row[`deep page by ${sort}, by cursor`] = await medianMs(() =>
        get(`${next}&per_page=${length()}`),
      )
    }
    const emails = []
    for (let count = 0; count < 50; count++) {
      emails.push(JSON.parse((await get(`/users/${someId()}`)).body).email)
    }
    let turn = 0
    row['one user by id'] = await medianMs(() => get(`/users/${someId()}`))
    row['one user by e-mail'] = await medianMs(() =>
      get(`/users?email=${emails[turn++ % 50].toUpperCase()}`),
    )
    row['create, on disk'] = await medianMs(() =>
      ask(agent, service.url, '/users', {
        user: { name: `Name ${turn++}`, email: `new${turn}@example.com` },
      }),
    )
    const deepByNumber = perPage =>
      `/users?per_page=${perPage}&page=${Math.floor(size / 2 / perPage)}`
    row['deep page by number'] = await medianMs(() => get(deepByNumber(length())), 5, 1)
    row['one user, and the count of all'] = await medianMs(() =>
      get('/users?per_page=1&count=true'),
    )
    agent.destroy()
    return row
  } finally {
    await service.stop()
  }
}

/** Fills the database; returns milliseconds. Indexes and triggers are created after the rows, which is faster. */
function fill(path, size) {
  const startedAt = performance.now()
  const database = new Database(path)
  database.pragma('journal_mode = OFF')
  database.pragma('synchronous = OFF')
  database.pragma('cache_size = -1000000')
  const dropped = database
    .prepare(`
      SELECT type, name, sql FROM sqlite_schema
      WHERE tbl_name = 'users' AND type IN ('index', 'trigger') AND sql IS NOT NULL`)
    .all()
  for (const { type, name } of dropped) database.exec(`DROP ${type} ${name}`)
  const insert = database.prepare(FILL)
  for (let from = 1; from <= size; from += CHUNK) {
    const to = Math.min(from + CHUNK - 1, size)
    insert.run({ from, to })
    showProgress(size, to, startedAt, 'users')
  }
  for (const [index, { sql }] of dropped.entries()) {
    database.exec(sql)
    showProgress(dropped.length, index + 1, startedAt, 'indexes')
  }
  database.prepare('UPDATE users_summary SET user_count = ?').run(size)
  database.pragma('journal_mode = WAL')
  database.close()
  return performance.now() - startedAt
}

function showProgress(total, done, startedAt, what) {
  if (!process.stderr.isTTY) return
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  const bar = '#'.repeat(Math.round((done / total) * 30)).padEnd(30, '.')
  process.stderr.write(`\r[${bar}] ${done.toLocaleString('en')} ${what}, ${seconds} s\x1b[K`)
  if (done === total) process.stderr.write('\n')
}

function ask(agent, url, target, body) {
  return new Promise((resolve, reject) => {
    const options = body && { method: 'POST', headers: { 'Content-Type': 'application/json' } }
    request(new URL(target, url), { agent, ...options }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk
      })
      response.on('end', () => {
        if (response.statusCode >= 300)
          reject(new Error(`${target}: ${response.statusCode} ${text}`))
        else resolve({ headers: response.headers, body: text })
      })
    })
      .on('error', reject)
      .end(body && JSON.stringify(body))
  })
}

/** The median time of one call of `work`, in milliseconds. The calls run one after another. */
async function medianMs(work, samples = SAMPLES, warmUp = WARM_UP) {
  for (let count = 0; count < warmUp; count++) await work()
  const times = []
  for (let count = 0; count < samples; count++) {
    const startedAt = performance.now()
    await work()
    times.push(performance.now() - startedAt)
  }
  return median(times).toFixed(2)
}
