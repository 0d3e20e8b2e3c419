// The measured rows as tables, and these in Markdown.
import { canServe, WORKLOADS } from './load.mjs'
import { describeRun, table } from './markdown.mjs'
import { SERVERS } from './servers.mjs'

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

/** The requests per second of a row divided by those of one service. */
const scaledFrom = base => (row, all) => {
  const one = all.find(({ server }) => server === base)
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
  services: [...LOAD, ['requests/s ÷ one service', scaledFrom('service')], PROBE],
  postgresServices: [
    ...LOAD,
    ['of it in PostgreSQL', row => row.postgresMicros.toFixed(1)],
    ['requests/s ÷ one service', scaledFrom('postgres')],
    PROBE,
  ],
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
  services: label => `${label}, by the number of services`,
  postgresServices: label => `${label}, on PostgreSQL, by the number of services`,
  redis: label => `${label}, with a limit in Redis`,
  keys: label => `${label}, with an API key`,
  metrics: label => `${label}, with metrics`,
}

/** The server of another group that is the first row of these groups. */
const BASES = {
  services: 'service',
  postgresServices: 'postgres',
  redis: 'service',
  keys: 'service',
  metrics: 'service',
}

/** Only for refusals, which should cost less than what they refuse. */
const REFUSAL_HEAD = 'refusal ÷ GET one'

/** The tables of all rounds: for each group and workload the medians of each server, and the `run`. */
export function summarize(rows, run) {
  return Object.keys(COLUMNS).flatMap(group => {
    const own = rows.filter(row => groupOf(row.server) === group)
    const workloads = own.map(row => row.workload)
    const isBase = row => row.server === BASES[group] && workloads.includes(row.workload)
    return summarizeGroup(group, [...rows.filter(isBase), ...own], run)
  })
}

/** Whether a table has every server that belongs to it. */
export function isComplete({ group, workload, servers }) {
  const expected = Object.keys(SERVERS).filter(
    server => (groupOf(server) === group || server === BASES[group]) && canServe(server, workload),
  )
  return expected.every(server => servers.some(row => row.server === server))
}

/** The title of a table, such as `PUT, on PostgreSQL`. */
export function titleOf({ group, workload }) {
  return TITLES[group](WORKLOADS[workload].label)
}

function summarizeGroup(group, rows, run) {
  const known = new Set(
    rows.flatMap(row => Object.keys(row).filter(key => typeof row[key] === 'number')),
  )
  const medians = (workload, server) => {
    const rounds = rows.filter(row => row.workload === workload && row.server === server)
    return Object.fromEntries(
      [...known]
        .filter(key => key !== 'round')
        .filter(key => rounds.every(row => row[key] !== undefined))
        .map(key => [key, median(rounds.map(row => row[key]))]),
    )
  }
  return distinct(rows, 'workload', WORKLOADS).map(workload => ({
    group,
    workload,
    run,
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

/** Tables in the order of the document, whenever each was measured. */
export function sortTables(tables) {
  const groups = Object.keys(COLUMNS)
  const workloads = Object.keys(WORKLOADS)
  return tables.toSorted(
    (one, other) =>
      groups.indexOf(one.group) - groups.indexOf(other.group) ||
      workloads.indexOf(one.workload) - workloads.indexOf(other.workload),
  )
}

/** All tables, each under its title, with the run before the first one of it. */
export function reportOf(tables) {
  const sorted = sortTables(tables)
  const parts = sorted.map((part, index) => {
    const run = describeLoad(part.run)
    const isNew = index === 0 || run !== describeLoad(sorted[index - 1].run)
    const content = `### ${titleOf(part)}\n\n${workloadTable(part, tables)}`
    return isNew ? `${run}\n\n${content}` : content
  })
  return [...parts, `### Peak memory\n\n${memoryTable(tables)}`].join('\n\n')
}

function describeLoad({ generator, rounds, seconds, connections, users, ...run }) {
  return [
    `${describeRun(run)}.`,
    `${generator} with ${connections} connections, ${users.toLocaleString('en')} users;`,
    `medians of ${rounds} alternating rounds of ${seconds} s:`,
  ].join('\n')
}

function workloadTable({ group, workload, servers }, tables) {
  const columns = COLUMNS[group]
  const head = ['server', ...columns.map(([name]) => name)]
  const rows = servers.map(row => [
    SERVERS[row.server].label,
    ...columns.map(([, cell]) => cell(row, servers)),
  ])
  if (WORKLOADS[workload].status === undefined) return table(head, rows)
  const reads = tables.filter(part => part.workload === 'read').flatMap(part => part.servers)
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
function memoryTable(tables) {
  const rows = tables
    .flatMap(({ servers }) => servers)
    .filter(({ peakBytes }) => peakBytes !== undefined)
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
