// Runs the whole test suite on releases of Node and on storage engines, and prints a table with a row for each Node.
// Node and PostgreSQL come from the npm registry, the code from the last commit. Exits with 1 unless all cells passed.
// Usage: npm run test:matrix -- [--nodes 20,22] [--cells sqlite,postgres-13] [--report FOLDER] [-- ARGUMENTS OF VITEST]
//        npm run test:matrix -- --report FOLDER --resume
// Cells: the projects of vitest, postgres-N and postgres-newest (releases of PostgreSQL), and transfers (20 imports and
// exports of 200,000 users each; `--transfers` and `--users` change this).

import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { lastCommit, makeCheckout } from './matrix/checkout.mjs'
import { startPostgres } from './matrix/postgres-server.mjs'
import { interrupted } from './matrix/processes.mjs'
import { describeResult, isFinished, isSound, openReport } from './matrix/report.mjs'
import { runSuite } from './matrix/suite.mjs'
import { runTransfers } from './matrix/transfers.mjs'

const NODES = '20,22,24,26'

/** The oldest PostgreSQL that the service supports, and the newest. */
const CELLS = 'sqlite,postgres-13,postgres-newest,workers,workers-redis,transfers'

const CELL = /^(sqlite|postgres|postgres-(\d+|newest)|workers|workers-redis|transfers)$/

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    nodes: { type: 'string' },
    cells: { type: 'string' },
    transfers: { type: 'string' },
    users: { type: 'string' },
    report: { type: 'string' },
    resume: { type: 'boolean', default: false },
  },
})
const folder = resolve(values.report ?? mkdtempSync(join(tmpdir(), 'matrix-report-')))
const report = openReport(folder, values.resume ? checkResume() : makePlan())
const { commit, nodes, cells } = report.plan
console.log(`commit ${commit}, report in ${folder}`)

// The user of PostgreSQL is not root, and writes here.
const servers = mkdtempSync(join(tmpdir(), 'matrix-postgres-'))
chmodSync(servers, 0o777)
try {
  for (const node of nodes) await tryNode(node)
} finally {
  rmSync(servers, { recursive: true, force: true })
}
const results = nodes.flatMap(node => cells.map(cell => report.resultOf(node, cell)))
printTable()
process.exitCode = results.every(isSound) ? 0 : 1

function makePlan() {
  const { nodes = NODES, cells = CELLS, transfers = '20', users = '200000' } = values
  const plan = {
    commit: lastCommit(),
    nodes: nodes.split(','),
    cells: cells.split(','),
    transfers: Number(transfers),
    users: Number(users),
    args: positionals,
  }
  const unknown = plan.cells.find(cell => !CELL.test(cell))
  if (unknown !== undefined) throw new Error(`there is no cell ${unknown}`)
  return plan
}

function checkResume() {
  const { report, resume, ...others } = values
  if (report === undefined) throw new Error('--resume needs --report FOLDER')
  if (Object.keys(others).length + positionals.length > 0) {
    throw new Error('--resume takes all other arguments from the report')
  }
}

/** Runs the cells of a release of Node that are not finished. */
async function tryNode(node) {
  const open = cells.filter(cell => !isFinished(report.resultOf(node, cell)))
  if (open.length === 0 || interrupted.aborted) return
  const folder = mkdtempSync(join(tmpdir(), `matrix-node-${node}-`))
  try {
    const log = report.pathOf(node, 'install.log')
    const installed = await makeCheckout({ release: node, commit, folder, log }).catch(toProblem)
    for (const cell of open) {
      if (interrupted.aborted) return
      const result = await tryCell({ node, cell, installed, folder })
      report.add(node, cell, result)
      const time = isFinished(result) ? `, ${result.minutes} minutes` : ''
      console.log(`Node ${node}, ${cell}: ${describeResult(result)}${time}`)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function tryCell({ node, cell, installed, folder }) {
  if (installed.problem !== undefined) return installed
  const json = report.pathOf(node, `${cell}.json`)
  const log = report.pathOf(node, `${cell}.log`)
  rmSync(log, { force: true })
  const versions = { node: installed.node, 'better-sqlite3': installed['better-sqlite3'] }
  const startedAt = performance.now()
  try {
    const counts = await runCell({ cell, installed, folder, json, log })
    const minutes = Math.round((performance.now() - startedAt) / 6000) / 10
    return { ...versions, ...counts, minutes }
  } catch (error) {
    rmSync(json, { force: true })
    return { ...versions, ...toProblem(error) }
  }
}

async function runCell({ cell, installed, folder, json, log }) {
  const { args, transfers, users } = report.plan
  if (cell === 'transfers') {
    return runTransfers(installed, { transfers, users, folder, json, log })
  }
  const [project, release] = cell.split(/-(?!redis)/)
  if (release === undefined) {
    const env = { WORKERS_SUITE: 'all' }
    return runSuite(installed, { project, env, args, json, log })
  }
  const server = await startPostgres({ release, folder: servers, log })
  try {
    const env = { TEST_POSTGRES_URL: server.url }
    const counts = await runSuite(installed, { project, env, args, json, log })
    return { postgres: server.version, ...counts }
  } finally {
    await server.stop()
  }
}

function toProblem(error) {
  return { problem: interrupted.aborted ? 'interrupted' : `did not run: ${error.message}` }
}

function printTable() {
  const rows = nodes.map(node => {
    const ofNode = cells.map(cell => report.resultOf(node, cell))
    const { node: version = node, 'better-sqlite3': driver = '' } =
      ofNode.find(result => result?.node !== undefined) ?? {}
    const texts = cells.map((cell, index) => [cell, describeResult(ofNode[index])])
    return { node: version, 'better-sqlite3': driver, ...Object.fromEntries(texts) }
  })
  console.table(rows)
  for (const cell of cells) {
    const { postgres } = nodes.map(node => report.resultOf(node, cell)).find(r => r?.postgres) ?? {}
    if (postgres !== undefined) console.log(`${cell}: ${postgres}`)
  }
}
