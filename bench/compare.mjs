// Compares the service with its peers under the same load on this machine. Usage:
//   npm run bench -- [--rounds 5] [--seconds 3] [--connections 50] [--servers service,fastify-bare]
//                    [--workloads read,create] [--warm-up 1] [--write]
// --write keeps the result in bench/measured.json and writes the documents that are made from it. It replaces the tables
// of which all servers were measured, and no others.
import { deepStrictEqual } from 'node:assert/strict'
import { makeDatabase } from './databases.mjs'
import { drive, GENERATOR, requestsOf, WORKLOADS } from './load.mjs'
import { currentRun, writeTables } from './measured.mjs'
import { fail, readOptions } from './options.mjs'
import { openPostgres } from './postgres.mjs'
import { temporaryFolder } from './programs.mjs'
import { openRedis } from './redis.mjs'
import { SERVERS, startServer, takesPart } from './servers.mjs'
import { isComplete, reportOf, summarize, titleOf } from './summary.mjs'

const USERS = 10_000

const SCRAPE_EVERY_MS = 1000

const {
  rounds,
  seconds,
  connections,
  'warm-up': warmUpSeconds,
  servers: asked,
  workloads,
  write,
} = readOptions({
  numbers: {
    rounds: [5, 1, 100],
    seconds: [3, 1, 60],
    'warm-up': [1, 0, 60],
    connections: [50, 1, 1000],
  },
  lists: { servers: Object.keys(SERVERS), workloads: Object.keys(WORKLOADS) },
})

const run = { ...currentRun(), generator: GENERATOR, rounds, seconds, connections, users: USERS }
const isOnPostgres = name => SERVERS[name].engine === 'postgres'
const usesRedis = name => SERVERS[name].usesRedis
const postgres = asked.some(isOnPostgres) ? await openPostgres() : undefined
const folder = temporaryFolder()
const redis = asked.some(usesRedis) ? await openRedis() : undefined
const names = asked.filter(
  name =>
    workloads.some(workload => takesPart(name, workload)) &&
    (postgres !== undefined || !isOnPostgres(name)) &&
    (redis !== undefined || !usesRedis(name)),
)
if (names.length === 0) fail('none of these servers takes part in these workloads')
const measured = []
try {
  const databases = {
    sqlite: await makeDatabases(),
    postgres: postgres && (await makeDatabases(postgres)),
  }
  for (let round = 0; round < rounds; round++) {
    // Each round starts with a different server, so that none always runs on a warm or a busy machine.
    for (let index = 0; index < names.length; index++) {
      const name = names[(round + index) % names.length]
      process.stderr.write(`round ${round + 1} of ${rounds}: ${SERVERS[name].label}\n`)
      measured.push(...(await measure(name, round, databases)))
    }
  }
} finally {
  await postgres?.close()
  await redis?.close()
}
const tables = summarize(measured, run)
console.log(reportOf(tables))
if (write) {
  for (const table of tables.filter(table => !isComplete(table))) {
    console.error(`not written, because not all of its servers were measured: ${titleOf(table)}`)
  }
  writeTables(tables.filter(isComplete))
}

/** Those of one engine, with the same users. */
async function makeDatabases(postgres) {
  const ours = await makeDatabase({ postgres, home: folder, size: USERS })
  const theirs = await makeDatabase({ postgres, home: folder, size: USERS, isOurs: false })
  return { ours, theirs }
}

/** One row for each workload of the server. */
async function measure(name, round, databases) {
  const server = await startServer({ name, databases, redis, folder })
  const { urls, headers } = server
  try {
    await verify(urls[0], headers)
    const rows = []
    for (const workload of workloads.filter(workload => takesPart(name, workload))) {
      const requests = await requestsOf(workload, { url: urls[0], headers, users: USERS })
      const shared = { urls, headers, requests, users: USERS, connections }
      const runName = `${name}.${round}.${workload}`
      // The first scrapes take much longer than all later ones.
      const stopScraping = startScraping(server.managementUrl)
      if (warmUpSeconds > 0) {
        await drive({ ...shared, run: `${runName}.warm`, seconds: warmUpSeconds })
      }
      const before = await server.usage()
      const result = await drive({ ...shared, run: runName, seconds })
      const after = await server.usage()
      stopScraping()
      if (result.failed > 0) throw new Error(`${name}, ${workload}: ${result.failed} failed`)
      const perRequest = key => (after[key] - before[key]) / result.requests
      rows.push({
        server: name,
        workload,
        round,
        requestsPerSecond: result.requests / result.seconds,
        p50Ms: result.p50Ms,
        p99Ms: result.p99Ms,
        cpuMicros: perRequest('cpuMicros'),
        postgresMicros: perRequest('postgresMicros'),
        redisMicros: perRequest('redisMicros'),
        peakBytes: after.peakBytes,
      })
    }
    return rows
  } finally {
    await server.stop()
  }
}

/** Scrapes a management port as Prometheus does. Nothing without one. */
function startScraping(managementUrl) {
  if (managementUrl === undefined) return () => {}
  const scrape = async () => {
    const response = await fetch(`${managementUrl}/metrics`, {
      headers: { Accept: 'text/plain;version=0.0.4,*/*;q=0.1' },
    })
    if (!(await response.text()).includes('\n# TYPE ')) throw new Error('no metrics')
  }
  scrape()
  const timer = setInterval(scrape, SCRAPE_EVERY_MS)
  return () => clearInterval(timer)
}

/** Rejects unless the server lists, reads, creates and changes users like all the others. */
async function verify(url, headers) {
  const ask = async (path, method, user) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...headers, ...(user && { 'Content-Type': 'application/json' }) },
      ...(user && { body: JSON.stringify({ user }) }),
    })
    return { status: response.status, body: await response.json() }
  }
  const list = await ask('/users', 'GET')
  deepStrictEqual([list.status, list.body.length], [200, 100])
  const one = await ask('/users/7', 'GET')
  deepStrictEqual(one, { status: 200, body: list.body[6] })
  deepStrictEqual(Object.keys(one.body), ['id', 'name', 'email', 'created_at', 'updated_at'])
  const created = await ask('/users', 'POST', { name: 'Ann', email: 'ann@example.com' })
  const { id, name, email } = created.body
  deepStrictEqual([created.status, name, email], [201, 'Ann', 'ann@example.com'])
  const renamed = await ask(`/users/${id}`, 'PUT', { name: 'Bob' })
  deepStrictEqual([renamed.status, renamed.body.name], [200, 'Bob'])
  deepStrictEqual((await ask(`/users/${id}`, 'GET')).body, renamed.body)
}
