// Compares the service with its peers under the same load on this machine. Usage:
//   npm run bench -- [--rounds 5] [--seconds 3] [--connections 50] [--servers service,fastify-bare]
//                    [--workloads read,create] [--warm-up 1] [--write]
// --write keeps the result in bench/measured.json and writes the documents and charts that are made from it. It replaces the
// tables of which all servers were measured, and no others.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { listenBeside } from './beside.mjs'
import { makePostgresDatabases, makeSqliteDatabases } from './databases.mjs'
import { canServe, loadGenerator, WORKLOADS } from './load.mjs'
import { currentRun, writeTables } from './measured.mjs'
import { pagesOf } from './pages.mjs'
import { NO_POSTGRES, openPostgres } from './postgres.mjs'
import { NO_REDIS, openRedis } from './redis.mjs'
import { isComplete, reportOf, summarize, titleOf } from './report.mjs'
import { startScraping, timeScrape } from './scraper.mjs'
import { needsRedis, SERVERS, startServer } from './servers.mjs'
import { verify } from './verify.mjs'

const USERS = 10_000

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    'warm-up': { type: 'string', default: '1' },
    connections: { type: 'string', default: '50' },
    servers: { type: 'string', default: Object.keys(SERVERS).join() },
    workloads: { type: 'string', default: Object.keys(WORKLOADS).join() },
    write: { type: 'boolean', default: false },
  },
})
const rounds = wholeNumber('rounds', 100)
const seconds = wholeNumber('seconds', 60)
const warmUpSeconds = wholeNumber('warm-up', 60, 0)
const connections = wholeNumber('connections', 1000)
const asked = chosen('servers', SERVERS)
const workloads = chosen('workloads', WORKLOADS)

const folder = mkdtempSync(join(tmpdir(), 'user-records-bench-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
let running
let postgres
let redis
process.once('SIGINT', async () => {
  await running?.stop()
  await postgres?.close()
  await redis?.close()
  process.exit(130)
})

const load = loadGenerator()
const run = { ...currentRun(), generator: load.name, rounds, seconds, connections, users: USERS }
const isOnPostgres = name => SERVERS[name].engine === 'postgres'
postgres = asked.some(isOnPostgres) ? await openPostgres() : undefined
if (postgres === undefined && asked.some(isOnPostgres)) console.error(NO_POSTGRES)
redis = asked.some(needsRedis) ? await openRedis() : undefined
if (redis === undefined && asked.some(needsRedis)) console.error(NO_REDIS)
const names = asked.filter(
  name =>
    workloads.some(workload => canServe(name, workload)) &&
    (postgres !== undefined || !isOnPostgres(name)) &&
    (redis !== undefined || !needsRedis(name)),
)
const databases = {
  sqlite: await makeSqliteDatabases(folder, USERS),
  postgres: postgres && (await makePostgresDatabases(postgres, USERS)),
}
const measured = []
try {
  for (let round = 0; round < rounds; round++) {
    // Each round starts with a different server, so that none always runs on a warm or a busy machine.
    for (let index = 0; index < names.length; index++) {
      const name = names[(round + index) % names.length]
      process.stderr.write(`round ${round + 1} of ${rounds}: ${SERVERS[name].label}\n`)
      measured.push(...(await measure(name, round)))
    }
  }
} finally {
  await postgres?.close()
  await redis?.close()
}
const tables = summarize(measured, run)
console.log(reportOf(tables))
if (options.write) {
  for (const table of tables.filter(table => !isComplete(table))) {
    console.error(`not written, because not all of its servers were measured: ${titleOf(table)}`)
  }
  writeTables(tables.filter(isComplete))
}

/** One row for each workload that the server can serve. */
async function measure(name, round) {
  const server = await startServer({ name, databases, redis, folder })
  running = server
  const [url] = server.urls
  try {
    await verify(name, { url, headers: server.headers })
    const rows = []
    for (const workload of workloads.filter(workload => canServe(name, workload))) {
      const targets = workload === 'pages' ? await pagesOf(url, USERS) : undefined
      const drive = (duration, part) =>
        load.drive({
          urls: server.urls,
          headers: server.headers,
          workload,
          targets,
          users: USERS,
          run: `${name}.${round}.${workload}.${part}`,
          connections,
          seconds: duration,
        })
      // The first scrapes take much longer than all later ones.
      const scraping = startScraping(server.managementUrl)
      if (warmUpSeconds > 0) await drive(warmUpSeconds, 'warm')
      const before = await server.usage()
      const beside = listenBeside(`${url}/users/1`, server.headers)
      const result = await drive(seconds, 'measured')
      const besideMs = await beside.stop()
      await scraping.stop()
      const after = await server.usage()
      if (result.failed > 0) throw new Error(`${name}, ${workload}: ${result.failed} failed`)
      const requests = result.requests + besideMs.length
      rows.push({
        server: name,
        workload,
        round,
        requestsPerSecond: result.requests / result.seconds,
        p50Ms: result.p50Ms,
        p99Ms: result.p99Ms,
        besideP99Ms: besideMs.sort((a, b) => a - b)[Math.floor(besideMs.length * 0.99)],
        cpuMicros: (after.cpuMicros - before.cpuMicros) / requests,
        postgresMicros: (after.postgresMicros - before.postgresMicros) / requests,
        backgroundMicros: (after.backgroundMicros - before.backgroundMicros) / requests,
        redisMicros: (after.redisMicros - before.redisMicros) / requests,
        peakBytes: after.peakBytes,
        ...(server.managementUrl && { scrapeMs: await timeScrape(server.managementUrl) }),
      })
    }
    return rows
  } finally {
    running = undefined
    await server.stop()
  }
}

function wholeNumber(name, most, least = 1) {
  const number = Number(options[name])
  if (Number.isInteger(number) && number >= least && number <= most) return number
  console.error(`--${name} must be a whole number from ${least} to ${most}`)
  process.exit(2)
}

function chosen(name, table) {
  const keys = options[name].split(',')
  const unknown = keys.filter(key => !Object.hasOwn(table, key))
  if (unknown.length === 0) return keys
  console.error(
    `--${name}: there is no ${unknown.join(', ')}; known are ${Object.keys(table).join(', ')}`,
  )
  process.exit(2)
}
