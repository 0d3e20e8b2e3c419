// Measures lists with `q`: fills a database with users of made-up names, builds the index of words, sends requests to the
// built service, prints a table.
// Usage: npm run bench:search -- [--engine sqlite] [--write] [USERS ...]; the default is 100000 and 1000000. The engine is
// sqlite or postgres. --write keeps the result in bench/measured.json and writes the documents that are made from it.
// npm run bench:search -- --words [--engine sqlite] [--rounds 5] [--write] [USERS] measures instead what the index adds to a
// create and to an import of USERS; the default is 60000.
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { currentRun, writePart } from './measured.mjs'
import { NO_POSTGRES, openPostgres } from './postgres.mjs'
import { median } from './report.mjs'
import { SELECT_INDEXES } from './scale-databases.mjs'
import { migrate, startProcess } from './servers.mjs'
import { searchTable, wordsTable } from './tables.mjs'
import { measureWords } from './words.mjs'

const DEFAULT_SIZES = [100_000, 1_000_000]
const IMPORTED_USERS = 60_000
const MAX_USERS = 10_000_000
const WORDS = 1000
const CHUNK = 50_000

// The words are indexed later, all at once.
const FILL_POSTGRES = `
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT name, name_lower, email, time, time
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS made (name, name_lower, email, time)
  WHERE (SELECT set_config('user_records.words', 'written', true)) = 'written'`

const SELECT_BYTES = 'SELECT pg_database_size(current_database()) AS bytes'

const { values: options, positionals } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    words: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '5' },
    write: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const sizes = positionals.map(Number)
if (sizes.some(size => !Number.isInteger(size) || size < 1000 || size > MAX_USERS)) {
  console.error(`USERS must be whole numbers from 1000 to ${MAX_USERS}`)
  process.exit(2)
}

if (!['sqlite', 'postgres'].includes(options.engine)) {
  console.error('--engine must be sqlite or postgres')
  process.exit(2)
}

const rounds = Number(options.rounds)
if (!Number.isInteger(rounds) || rounds < 1 || rounds > 100) {
  console.error('--rounds must be a whole number from 1 to 100')
  process.exit(2)
}

const postgres = options.engine === 'postgres' ? await openPostgres() : undefined
if (options.engine === 'postgres' && postgres === undefined) {
  console.error(NO_POSTGRES)
  process.exit(0)
}
const folder = mkdtempSync(join(tmpdir(), 'user-records-search-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
process.once('SIGINT', async () => {
  await postgres?.close()
  process.exit(130)
})

let seed = 1
const firsts = Array.from({ length: 3000 }, makeWord)
const lasts = Array.from({ length: 30_000 }, makeWord)
const domains = ['example.com', 'mail.example', 'post.example']

const run = currentRun()
try {
  if (options.words) {
    const [users = IMPORTED_USERS] = sizes
    const words = await measureWords({ folder, postgres, run, rounds, users })
    console.log(`\n${wordsTable(words)}`)
    if (options.write) writePart('words', options.engine, words)
  } else {
    const columns = []
    for (const size of sizes.length > 0 ? sizes : DEFAULT_SIZES) columns.push(await measure(size))
    console.log(`\n${searchTable({ run, columns })}`)
    if (options.write) writePart('search', options.engine, { run, columns })
  }
} finally {
  await postgres?.close()
}

async function measure(size) {
  const home = join(folder, String(size))
  mkdirSync(home)
  const database = await (postgres === undefined ? makeSqlite(home, size) : makePostgres(size))
  const { url } = database
  const plainBytes = await database.bytes()
  const startedAt = performance.now()
  await migrate(url, '--reindex')
  const indexedMs = performance.now() - startedAt
  const bytes = await database.bytes()
  const ms = {}
  const env = { DATABASE_URL: url, PORT: '0', LOG_LEVEL: 'warn' }
  const service = await startProcess({ env, home })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const busyAgent = new Agent({ keepAlive: true, maxSockets: 1 })
  const get = target => ask(agent, service.url, target)
  const list = q => `/users?q=${encodeURIComponent(q)}`
  try {
    const whole = Array.from({ length: WORDS }, () => pick(Math.random() < 0.5 ? firsts : lasts))
    const begun = whole.map(word => word.slice(0, 3 + Math.floor(Math.random() * 4)))
    for (const word of begun.slice(0, 100)) await get(list(word))
    ms['first page, 1,000 words of 3 letters or more'] = await figures(
      begun.map(word => () => get(list(word))),
    )
    ms['the same, whole words'] = await figures(whole.map(word => () => get(list(word))))
    const pairs = whole.map(
      (word, index) => `${word.slice(0, 3)} ${whole[(index + 7) % WORDS].slice(0, 2)}`,
    )
    ms['two words'] = await figures(pairs.map(q => () => get(list(q))))
    const deeps = []
    for (const word of begun.slice(0, 200)) {
      const page = await walkTo(get, `${list(word)}&per_page=20`, 20)
      if (page !== undefined) deeps.push(page)
    }
    ms['first pages of 20 users'] = await figures(
      begun.slice(0, 200).map(word => () => get(`${list(word)}&per_page=20`)),
    )
    ms['20th pages of 20 users, by cursor'] = await figures(deeps.map(page => () => get(page)))
    const deep = await walkTo(get, `${list('example')}&per_page=1000`, Math.min(400, size / 2000))
    ms['a word that all have: first page'] = await figures(
      repeat(30, index => get(`${list('example')}&per_page=${80 + index}`)),
    )
    ms['the same, far behind, by cursor'] = await figures(
      repeat(30, index => get(deep.replace('per_page=1000', `per_page=${80 + index}`))),
    )
    for (const sort of ['name', '-created_at']) {
      ms[`first page by ${sort}`] = await figures(
        begun.slice(0, 200).map(word => () => get(`${list(word)}&sort=${sort}`)),
      )
      ms[`a word that all have, by ${sort}`] = await figures(
        repeat(10, index => get(`${list('example')}&sort=${sort}&per_page=${90 + index}`)),
      )
    }
    const few = `z${lasts.at(-1).slice(0, 2)}zq`
    ms['count of all that have a word'] = await figures(
      begun.slice(0, 100).map(word => () => get(`${list(word)}&per_page=1&count=true`)),
    )
    ms['count of a word that all have'] = await figures(
      repeat(5, index => get(`${list('exampl')}&per_page=${1 + index}&count=true`)),
    )
    ms['the same, of 7 letters'] = await figures(
      repeat(3, index => get(`${list('example')}&per_page=${1 + index}&count=true`)),
    )
    ms['two words that all have, and one that none has'] = await figures(
      repeat(5, index => get(`${list(`exam ${few}`)}&per_page=${1 + index}`)),
    )
    ms['meanwhile: one user by id'] = await meanwhile(get, index =>
      ask(busyAgent, service.url, `${list('example')}&count=true&per_page=${1 + (index % 900)}`),
    )
    return { users: size, indexSeconds: indexedMs / 1000, plainBytes, bytes, ms }
  } finally {
    agent.destroy()
    busyAgent.destroy()
    await service.stop()
    await database.drop()
  }
}

/** Latencies of a short request while long ones run one after another. */
async function meanwhile(get, long) {
  let isOver = false
  const busy = (async () => {
    for (let index = 0; !isOver; index++) await long(index)
  })()
  const works = repeat(200, () => get('/users/1'))
  return figures(works).finally(() => {
    isOver = true
    return busy
  })
}

async function walkTo(get, first, pages) {
  let target = first
  for (let count = 1; count < pages; count++) {
    const { headers } = await get(target)
    target = /<([^>]*)>; rel="next"/.exec(headers.link ?? '')?.[1]
    if (target === undefined) return undefined
  }
  return target
}

/** The median and the 99th percentile of the time of each call, in milliseconds. */
async function figures(works) {
  const times = []
  for (const work of works) {
    const startedAt = performance.now()
    await work()
    times.push(performance.now() - startedAt)
  }
  times.sort((a, b) => a - b)
  return times.length === 0 ? undefined : [median(times), times[Math.floor(times.length * 0.99)]]
}

function repeat(count, work) {
  return Array.from({ length: count }, (_, index) => () => work(index))
}

function ask(agent, url, target) {
  return new Promise((resolve, reject) => {
    request(new URL(target, url), { agent }, response => {
      let body = ''
      response.setEncoding('utf8').on('data', chunk => {
        body += chunk
      })
      response.on('end', () => {
        if (response.statusCode === 200) resolve({ headers: response.headers, body })
        else reject(new Error(`${target}: ${response.statusCode} ${body}`))
      })
    })
      .on('error', reject)
      .end()
  })
}

/** The users of a chunk, with frequent and rare names. */
function* usersOf(from, to) {
  for (let id = from; id <= to; id++) {
    const [first, last] = [pick(firsts), pick(lasts)]
    const name = `${capital(first)} ${capital(last)}`
    const time = new Date(1_600_000_000_000 + id * 10_000).toISOString()
    yield [name, name.toLowerCase(), `${first}.${last}${id}@${domains[id % 3]}`, time]
  }
}

/** Indexes are created after the rows, which is faster. */
async function makeSqlite(home, size) {
  const url = join(home, 'users.db')
  await migrate(url)
  fill(url, size)
  return { url, bytes: async () => statSync(url).size, drop: async () => {} }
}

async function makePostgres(size) {
  const url = await postgres.createDatabase()
  await migrate(url)
  const { rows: dropped } = await postgres.query(url, SELECT_INDEXES)
  for (const { name } of dropped) await postgres.query(url, `DROP INDEX ${name}`)
  for (let from = 1; from <= size; from += CHUNK) {
    const users = [...usersOf(from, Math.min(from + CHUNK - 1, size))]
    const columns = [0, 1, 2, 3].map(column => users.map(user => user[column]))
    await postgres.query(url, FILL_POSTGRES, columns)
  }
  for (const { sql } of dropped) await postgres.query(url, sql)
  return {
    url,
    bytes: async () => {
      await postgres.query(url, 'VACUUM ANALYZE')
      const { rows } = await postgres.query(url, SELECT_BYTES)
      return Number(rows[0].bytes)
    },
    drop: () => postgres.drop(url),
  }
}

function fill(url, size) {
  const database = new Database(url)
  database.pragma('journal_mode = OFF')
  database.pragma('synchronous = OFF')
  database.pragma('cache_size = -1000000')
  const dropped = database
    .prepare(`
      SELECT type, name, sql FROM sqlite_schema
      WHERE tbl_name = 'users' AND type IN ('index', 'trigger') AND sql IS NOT NULL`)
    .all()
  for (const { type, name } of dropped) database.exec(`DROP ${type} ${name}`)
  const insert = database.prepare(`
    INSERT INTO users (name, name_lower, email, created_at, updated_at) VALUES (?, ?, ?, ?, ?)`)
  const insertChunk = database.transaction((from, to) => {
    for (const [name, nameLower, email, time] of usersOf(from, to)) {
      insert.run(name, nameLower, email, time, time)
    }
  })
  for (let from = 1; from <= size; from += CHUNK)
    insertChunk(from, Math.min(from + CHUNK - 1, size))
  for (const { sql } of dropped) database.exec(sql)
  database.prepare('UPDATE users_summary SET user_count = ?').run(size)
  database.exec('VACUUM')
  database.pragma('journal_mode = WAL')
  database.close()
}

function makeWord() {
  const syllables =
    'an ber ca da el fa go hi is jo ka lo ma no ol pe qui ro sa ti ul vi wa xe yo za sen ton man ski ner lin'.split(
      ' ',
    )
  let word = ''
  for (let count = 2 + Math.floor(random() ** 2 * 4); count > 0; count--) {
    word += syllables[Math.floor(random() * syllables.length)]
  }
  return word
}

/** Some are far more frequent than others. */
function pick(words) {
  return words[Math.floor(random() ** 3 * words.length)]
}

function random() {
  seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
  return seed / 0x7fffffff
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1)
}
