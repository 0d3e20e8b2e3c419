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
  'CPU µs per request',
  'service ÷ server',
  'with a rate limit',
  'probe p99 ms',
]

/** Only for refusals, which should cost less than what they refuse. */
const REFUSAL_HEAD = 'refusal ÷ GET one'

/** The medians of all rounds, by workload and server. */
function summarize(rows) {
  const known = Object.keys(rows[0] ?? {}).filter(key => typeof rows[0][key] === 'number')
  const medians = (workload, server) => {
    const rounds = rows.filter(row => row.workload === workload && row.server === server)
    return Object.fromEntries(known.map(key => [key, median(rounds.map(row => row[key]))]))
  }
  return distinct(rows, 'workload', WORKLOADS).map(workload => ({
    workload,
    servers: distinct(
      rows.filter(row => row.workload === workload),
      'server',
      SERVERS,
    ).map(server => ({ server, ...medians(workload, server) })),
  }))
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
  const tables = summary.map(
    ({ workload, servers }) =>
      `### ${WORKLOADS[workload].label}\n\n${workloadTable(workload, servers, summary)}`,
  )
  return [setting, ...tables, `### Peak memory\n\n${memoryTable(summary)}`].join('\n\n')
}

function workloadTable(workload, servers, summary) {
  const rows = servers.map(rowOf)
  if (WORKLOADS[workload].status === undefined) return table(HEAD, rows)
  const reads = summary.find(other => other.workload === 'read')?.servers ?? []
  const ratios = servers.map(({ server, cpuMicros }) => {
    const read = reads.find(row => row.server === server)
    return read === undefined ? '' : ratio(cpuMicros, read.cpuMicros)
  })
  return table(
    [...HEAD, REFUSAL_HEAD],
    rows.map((row, index) => [...row, ratios[index]]),
  )
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

/** The peak over all workloads of a round: they run one after another in the same process. */
function memoryTable(summary) {
  const rows = summary.flatMap(({ servers }) => servers)
  const peaks = distinct(rows, 'server', SERVERS).map(server => {
    const bytes = rows.filter(row => row.server === server).map(({ peakBytes }) => peakBytes)
    return [SERVERS[server].label, (Math.max(...bytes) / 1e6).toFixed(0)]
  })
  return table(['server', 'MB'], peaks)
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
