// Measures how the latency of requests depends on the number of users: fills a database, sends requests to the built
// service, prints a table.
// Usage: npm run bench:scale -- [--engine sqlite] [--write] [USERS ...], such as 10000 1000000. Without USERS: 10,000, 100,000
// and 1,000,000. The engine is sqlite or postgres. --write keeps the result in bench/measured.json and writes the documents and
// charts that are made from it.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { currentRun, writePart } from './measured.mjs'
import { NO_POSTGRES, openPostgres } from './postgres.mjs'
import { median } from './report.mjs'
import { makePostgresDatabase, makeSqliteDatabase } from './scale-databases.mjs'
import { startProcess } from './servers.mjs'
import { scaleTable } from './tables.mjs'

const DEFAULT_SIZES = [10_000, 100_000, 1_000_000]
const MIN_USERS = 10_000
const MAX_USERS = 10_000_000
const SAMPLES = 400

/** Of requests that may take long. */
const RARE_SAMPLES = 5

const WARM_UP = 100

/** Of one walk. */
const MAX_PAGES = 45

const SORTS = ['id', 'name', 'email', '-created_at', 'updated_at']

/** One user was created every this many milliseconds, the first one of them after this time. */
const CREATED_EVERY_MS = 10_000
const FIRST_CREATED = 1_600_000_000_000

const { values: options, positionals } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    write: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const sizes = positionals.map(Number)
if (sizes.some(size => !Number.isInteger(size) || size < MIN_USERS || size > MAX_USERS)) {
  console.error(`USERS must be whole numbers from ${MIN_USERS} to ${MAX_USERS}`)
  process.exit(2)
}
if (!['sqlite', 'postgres'].includes(options.engine)) {
  console.error('--engine must be sqlite or postgres')
  process.exit(2)
}

const postgres = options.engine === 'postgres' ? await openPostgres() : undefined
if (options.engine === 'postgres' && postgres === undefined) {
  console.error(NO_POSTGRES)
  process.exit(0)
}
const folder = mkdtempSync(join(tmpdir(), 'user-records-scale-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
process.once('SIGINT', async () => {
  await postgres?.close()
  process.exit(130)
})

const run = currentRun()
const columns = []
try {
  for (const size of sizes.length > 0 ? sizes : DEFAULT_SIZES) columns.push(await measure(size))
} finally {
  await postgres?.close()
}
console.log(`\n${scaleTable({ run, columns })}`)
if (options.write) writePart('scale', options.engine, { run, columns })

async function measure(size) {
  const home = join(folder, String(size))
  mkdirSync(home)
  const database = await (postgres === undefined
    ? makeSqliteDatabase(home, size)
    : makePostgresDatabase(postgres, size))
  const env = { DATABASE_URL: database.url, PORT: '0', LOG_LEVEL: 'info' }
  const service = await startProcess({ env, home })
  try {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const get = target => ask(agent, service.url, target)
    const someId = () => 1 + Math.floor(Math.random() * size)
    const deepPage = Math.floor(size / 2 / 100)
    let turn = 0
    const ms = {}
    const ratios = []
    for (const sort of SORTS) {
      const [starts, deeps] = [
        await walk(agent, `${service.url}/users?sort=${sort}&page=1`),
        await walk(agent, `${service.url}/users?sort=${sort}&page=${deepPage}`),
      ]
      const [first, deep] = await mediansMs([
        () => get(starts[turn++ % starts.length]),
        () => get(deeps[turn % deeps.length]),
      ])
      ms[`first page by ${sort}`] = first
      ms[`deep page by ${sort}, by cursor`] = deep
      ratios.push(deep / first)
    }
    for (const [label, first, count] of [
      ['5,000 users by time', Math.floor(size / 3), 5000],
      ['half of the users by time', 1, Math.floor(size / 2)],
    ]) {
      ms[`${label}, first page by name`] = await medianMs(
        () => get(`/users?${rangeOf(first + turn++, count)}&sort=name`),
        RARE_SAMPLES,
        1,
      )
    }
    const emails = []
    for (let count = 0; count < 50; count++) {
      emails.push(JSON.parse((await get(`/users/${someId()}`)).body).email)
    }
    ms['one user by id'] = await medianMs(() => get(`/users/${someId()}`))
    ms['one user by e-mail'] = await medianMs(() =>
      get(`/users?email=${emails[turn++ % 50].toUpperCase()}`),
    )
    ms['create, on disk'] = await medianMs(() =>
      ask(agent, service.url, '/users', {
        user: { name: `Name ${turn++}`, email: `new${turn}@example.com` },
      }),
    )
    ms['deep page by number'] = await medianMs(
      () => get(`/users?page=${deepPage - (turn++ % 10)}`),
      RARE_SAMPLES,
      1,
    )
    ms['one user, and the count of all'] = await medianMs(() => get('/users?per_page=1&count=true'))
    agent.destroy()
    return {
      users: size,
      fillSeconds: database.filledMs / 1000,
      bytes: database.bytes,
      ms,
      deepRatio: Math.max(...ratios),
    }
  } finally {
    await service.stop()
    await database.drop()
  }
}

/** The paths of pages behind a page. The service remembers 50 lists, fewer than two such walks have. */
async function walk(agent, url) {
  const paths = []
  for (let next = url; next !== undefined && paths.length < MAX_PAGES; ) {
    const { headers } = await ask(agent, url, next)
    next = /<([^>]*)>; rel="next"/.exec(headers.link)?.[1]
    if (next !== undefined) paths.push(next)
  }
  return paths
}

/** The parameters for `count` users by the time of their creation, from the one with the id `first`. */
function rangeOf(first, count) {
  const before = new Date(FIRST_CREATED + (first - 0.5) * CREATED_EVERY_MS)
  const after = new Date(before.getTime() + count * CREATED_EVERY_MS)
  return `created_after=${before.toISOString()}&created_before=${after.toISOString()}`
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

async function medianMs(work, samples, warmUp) {
  const [only] = await mediansMs([work], samples, warmUp)
  return only
}

/** The median time of one call of each of `works`, in milliseconds. The calls run one after another, in turn. */
async function mediansMs(works, samples = SAMPLES, warmUp = WARM_UP) {
  const times = works.map(() => [])
  for (let count = -warmUp; count < samples; count++) {
    for (const [index, work] of works.entries()) {
      const startedAt = performance.now()
      await work()
      if (count >= 0) times[index].push(performance.now() - startedAt)
    }
  }
  return times.map(median)
}
