// The measured rows as tables in Markdown and as a chart.
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { chartOf } from './chart.mjs'
import { WORKLOADS } from './load.mjs'
import { SERVERS } from './servers.mjs'

const DOCUMENT = new URL('../docs/performance.md', import.meta.url)

const CHART = new URL('../docs/performance.svg', import.meta.url)

const MARKS = ['<!-- measured: begin -->', '<!-- measured: end -->']

const LOAD = [
  ['requests/s', row => Math.round(row.requestsPerSecond).toLocaleString('en')],
  ['p50 ms', row => row.p50Ms.toFixed(2)],
  ['p99 ms', row => row.p99Ms.toFixed(2)],
  ['CPU µs per request', row => row.cpuMicros.toFixed(1)],
]

const PROBE = ['probe p99 ms', row => row.besideP99Ms.toFixed(2)]

/** What the service takes of the CPU time of a server, `all` being the servers of the same table. */
const takenBy = ours => (row, all) => {
  const own = all.find(({ server }) => server === ours)
  return own === undefined || row.server === ours ? '' : ratio(own.cpuMicros, row.cpuMicros)
}

/** The requests per second of a row divided by those of one process. */
function scaling(row, all) {
  const one = all.find(({ server }) => server === 'service')
  return one === undefined ? '' : ratio(row.requestsPerSecond, one.requestsPerSecond)
}

/** What the limit of this service adds divided by what that of the row adds. */
function takenByLimit(row, all) {
  const own = all.find(({ server }) => server === 'redis')
  const [ours, theirs] = [own?.addedMicros, row.addedMicros]
  const isKnown = row !== own && ours !== undefined && theirs !== undefined
  return isKnown ? ratio(ours, theirs) : ''
}

/** What a row adds to the CPU time of its `plain`, in percent of that. */
function addedPercent({ server, addedMicros }, all) {
  const plain = all.find(row => row.server === SERVERS[server].plain)
  return addedMicros === undefined || plain === undefined
    ? ''
    : ((addedMicros / plain.cpuMicros) * 100).toFixed(1)
}

/** The columns behind the name of the server, by group. */
const COLUMNS = {
  sqlite: [
    ...LOAD,
    ['service ÷ server', takenBy('service')],
    ['with a rate limit', takenBy('limited')],
    PROBE,
  ],
  postgres: [
    ...LOAD,
    ['of it in PostgreSQL', row => row.postgresMicros.toFixed(1)],
    ['PostgreSQL in the background', row => row.backgroundMicros.toFixed(1)],
    ['service ÷ server', takenBy('postgres')],
    PROBE,
  ],
  workers: [...LOAD, ['requests/s ÷ one process', scaling], PROBE],
  redis: [
    ...LOAD,
    ['of it in Redis', row => row.redisMicros.toFixed(1)],
    ['added by the limit', row => row.addedMicros?.toFixed(1) ?? ''],
    ['service ÷ server, added by the limit', takenByLimit],
    PROBE,
  ],
  keys: [...LOAD, ['added by the key', row => row.addedMicros?.toFixed(1) ?? ''], PROBE],
  metrics: [
    ...LOAD,
    ['added by metrics', row => row.addedMicros?.toFixed(1) ?? ''],
    ['added, %', addedPercent],
    ['/metrics ms', row => row.scrapeMs?.toFixed(1) ?? ''],
    PROBE,
  ],
}

const TITLES = {
  sqlite: label => label,
  postgres: label => `${label}, on PostgreSQL`,
  workers: label => `${label}, by the number of workers`,
  redis: label => `${label}, with a limit in Redis`,
  keys: label => `${label}, with an API key`,
  metrics: label => `${label}, with metrics`,
}

/** The server of another group that is the first row of these groups. */
const BASE = 'service'

const HAS_BASE = new Set(['workers', 'redis', 'keys', 'metrics'])

/** Only for refusals, which should cost less than what they refuse. */
const REFUSAL_HEAD = 'refusal ÷ GET one'

/** The medians of all rounds, by group, workload and server. */
function summarize(rows) {
  return Object.keys(COLUMNS).flatMap(group => {
    const own = rows.filter(row => groupOf(row.server) === group)
    const workloads = own.map(row => row.workload)
    const isBase = row => row.server === BASE && workloads.includes(row.workload)
    return summarizeGroup(group, HAS_BASE.has(group) ? [...rows.filter(isBase), ...own] : own)
  })
}

function summarizeGroup(group, rows) {
  const known = new Set(
    rows.flatMap(row => Object.keys(row).filter(key => typeof row[key] === 'number')),
  )
  const medians = (workload, server) => {
    const rounds = rows.filter(row => row.workload === workload && row.server === server)
    return Object.fromEntries(
      [...known]
        .filter(key => rounds.every(row => row[key] !== undefined))
        .map(key => [key, median(rounds.map(row => row[key]))]),
    )
  }
  return distinct(rows, 'workload', WORKLOADS).map(workload => ({
    group,
    workload,
    label: TITLES[group](WORKLOADS[workload].label),
    servers: distinct(
      rows.filter(row => row.workload === workload),
      'server',
      SERVERS,
    ).map(server => ({
      server,
      ...medians(workload, server),
      addedMicros: addedMicros(rows, workload, server),
    })),
  }))
}

/**
 * The CPU time that a request takes more than on the same server without what is measured, by its `plain`: the median of the
 * rounds, each compared with itself, because the machine changes between them. Undefined for a server without `plain`.
 */
function addedMicros(rows, workload, server) {
  const timesOf = name => {
    const own = rows.filter(row => row.workload === workload && row.server === name)
    return new Map(own.map(({ round, cpuMicros }) => [round, cpuMicros]))
  }
  const without = timesOf(SERVERS[server].plain)
  const added = [...timesOf(server)]
    .filter(([round]) => without.has(round))
    .map(([round, micros]) => micros - without.get(round))
  return added.length === 0 ? undefined : median(added)
}

export function printReport(rows, setting) {
  process.stdout.write(`${markdown(rows, setting)}\n`)
}

/** Writes the tables between the marks in docs/performance.md, and the chart into docs/performance.svg. */
export function writeReport(rows, setting) {
  const text = readFileSync(DOCUMENT, 'utf8')
  const [before, after] = [text.split(MARKS[0])[0], text.split(MARKS[1])[1]]
  const chart = '![CPU time per request, by workload and server](performance.svg)'
  const measured = [MARKS[0], chart, markdown(rows, setting), MARKS[1]].join('\n\n')
  writeFileSync(DOCUMENT, `${before}${measured}${after}`)
  writeFileSync(CHART, chartOf(summarize(rows)))
}

function markdown(rows, { load, rounds, seconds, connections, users }) {
  const setting = [
    `${machine()}, ${load} with ${connections} connections, ${users.toLocaleString('en')} users;`,
    `medians of ${rounds} alternating rounds of ${seconds} s.`,
  ].join('\n')
  const summary = summarize(rows)
  const tables = summary.map(part => `### ${part.label}\n\n${workloadTable(part, summary)}`)
  return [setting, ...tables, `### Peak memory\n\n${memoryTable(summary)}`].join('\n\n')
}

function workloadTable({ group, workload, servers }, summary) {
  const columns = COLUMNS[group]
  const head = ['server', ...columns.map(([name]) => name)]
  const rows = servers.map(row => [
    SERVERS[row.server].label,
    ...columns.map(([, cell]) => cell(row, servers)),
  ])
  if (WORKLOADS[workload].status === undefined) return table(head, rows)
  const reads = summary.filter(part => part.workload === 'read').flatMap(part => part.servers)
  const ratios = servers.map(({ server, cpuMicros }) => {
    const read = reads.find(row => row.server === server)
    return read === undefined ? '' : ratio(cpuMicros, read.cpuMicros)
  })
  return table(
    [...head, REFUSAL_HEAD],
    rows.map((row, index) => [...row, ratios[index]]),
  )
}

/** The peak over all workloads of a round: they run one after another in the same process. */
function memoryTable(summary) {
  const rows = summary.flatMap(({ servers }) => servers)
  const peaks = distinct(rows, 'server', SERVERS).map(server => {
    const bytes = rows.filter(row => row.server === server).map(({ peakBytes }) => peakBytes)
    const { label, engine } = SERVERS[server]
    return [
      engine === undefined ? label : `${label}, without PostgreSQL`,
      (Math.max(...bytes) / 1e6).toFixed(0),
    ]
  })
  return table(['server', 'MB'], peaks)
}

function groupOf(server) {
  const { group, engine = 'sqlite' } = SERVERS[server]
  return group ?? engine
}

/** Node and the processors. */
export function machine() {
  return `Node ${process.version}, ${availableParallelism()} × ${cpus()[0]?.model.trim()}`
}

/** A table in Markdown, whose first column is text and whose others are numbers. */
export function table(head, rows) {
  const line = cells => `| ${cells.join(' | ')} |`
  const rule = `|---|${'---:|'.repeat(head.length - 1)}`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

function ratio(ours, theirs) {
  return (ours / theirs).toFixed(2)
}

/** The values of `key` that occur in the rows, in the order of `table`. */
function distinct(rows, key, table) {
  return Object.keys(table).filter(name => rows.some(row => row[key] === name))
}

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
