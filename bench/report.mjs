// The measured rows as tables in Markdown and as a chart.
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { chartOf } from './chart.mjs'
import { WORKLOADS } from './load.mjs'
import { SERVERS } from './servers.mjs'

const DOCUMENT = new URL('../docs/performance.md', import.meta.url)

const CHART = new URL('../docs/performance.svg', import.meta.url)

const MARKS = ['<!-- measured: begin -->', '<!-- measured: end -->']

const HEAD = [
  'server',
  'requests/s',
  'p50 ms',
  'p99 ms',
  'CPU µs a request',
  'this service takes of it',
  'with a rate limit',
  'GET one beside, p99 ms',
]

/** Medians of the rounds: by workload, and in it by server. */
function summarize(rows) {
  const known = Object.keys(rows[0] ?? {}).filter(key => typeof rows[0][key] === 'number')
  const medians = (workload, server) => {
    const rounds = rows.filter(row => row.workload === workload && row.server === server)
    return Object.fromEntries(known.map(key => [key, median(rounds.map(row => row[key]))]))
  }
  return distinct(rows, 'workload', WORKLOADS).map(workload => ({
    workload,
    servers: distinct(rows, 'server', SERVERS).map(server => ({
      server,
      ...medians(workload, server),
    })),
  }))
}

export function printReport(rows, setting) {
  process.stdout.write(`${markdown(rows, setting)}\n`)
}

/** Puts the tables between the marks of docs/performance.md, and the chart beside it. */
export function writeReport(rows, setting) {
  const text = readFileSync(DOCUMENT, 'utf8')
  const [before, after] = [text.split(MARKS[0])[0], text.split(MARKS[1])[1]]
  const chart = '![CPU time a request, by workload and server](performance.svg)'
  const measured = [MARKS[0], chart, markdown(rows, setting), MARKS[1]].join('\n\n')
  writeFileSync(DOCUMENT, `${before}${measured}${after}`)
  writeFileSync(CHART, chartOf(summarize(rows)))
}

function markdown(rows, { load, rounds, seconds, connections, users }) {
  const processor = `${availableParallelism()} × ${cpus()[0]?.model.trim()}`
  const setting = [
    `Node ${process.version}, ${processor}, ${load} with ${connections} connections, ${users.toLocaleString('en')} users;`,
    `medians of ${rounds} alternating rounds of ${seconds} s.`,
  ].join('\n')
  const summary = summarize(rows)
  const tables = summary.map(
    ({ workload, servers }) => `### ${WORKLOADS[workload]}\n\n${table(HEAD, servers.map(rowOf))}`,
  )
  return [setting, ...tables, `### Peak memory\n\n${memoryTable(summary)}`].join('\n\n')
}

function rowOf(row, _index, all) {
  const takes = ours => {
    const own = all.find(({ server }) => server === ours)
    return own === undefined || row.server === ours ? '' : ratio(own.cpuMicros, row.cpuMicros)
  }
  return [
    SERVERS[row.server].label,
    Math.round(row.requestsPerSecond).toLocaleString('en'),
    row.p50Ms.toFixed(2),
    row.p99Ms.toFixed(2),
    row.cpuMicros.toFixed(1),
    takes('service'),
    takes('limited'),
    row.besideP99Ms.toFixed(2),
  ]
}

/** The highest of all workloads: they run one after another in the same process. */
function memoryTable(summary) {
  const peaks = summary[0].servers.map(({ server }) => {
    const bytes = summary.map(({ servers }) => servers.find(row => row.server === server).peakBytes)
    return [SERVERS[server].label, (Math.max(...bytes) / 1e6).toFixed(0)]
  })
  return table(['server', 'MB'], peaks)
}

function table(head, rows) {
  const line = cells => `| ${cells.join(' | ')} |`
  const rule = `|---|${'---:|'.repeat(head.length - 1)}`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

function ratio(ours, theirs) {
  return (ours / theirs).toFixed(2)
}

/** What is in the rows, in the order of the table that names it. */
function distinct(rows, key, table) {
  return Object.keys(table).filter(name => rows.some(row => row[key] === name))
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
