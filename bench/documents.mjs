// The documents that are made from measured.json.
import { readFileSync, writeFileSync } from 'node:fs'
import { WORKLOADS } from './load.mjs'
import { describeRun, grouped, replacePart, table } from './markdown.mjs'
import { scalingParts } from './scaling.mjs'
import { SERVERS } from './servers.mjs'
import { describeLoad } from './summary.mjs'

const DOCS = new URL('../docs/', import.meta.url)

/** The results that docs/performance.md shows, by their names, and of which engines. */
const SHOWN = {
  scale: [sizesTable, 'sqlite', 'postgres'],
  search: [sizesTable, 'sqlite', 'postgres'],
  transfer: [transferTable, 'sqlite', 'postgres'],
  follow: [followTable, 'sqlite'],
}

export function writeDocuments(measured) {
  writeParts('performance.md', performanceParts(measured))
  writeParts('scaling.md', scalingParts(measured))
}

/** Requests by the number of users: `columns` with the size of a database, and `ms` as [median, p99]. */
export function sizesTable({ run, columns }) {
  const rows = Object.keys(columns[0].ms).map(name => [
    name,
    ...columns.map(({ ms }) => ms[name]?.map(time => time.toFixed(2)).join(', ') ?? ''),
  ])
  const sizes = columns.map(({ users }) => grouped(users))
  return `${describeRun(run)}:\n\n${table(['median, p99 in ms', ...sizes], rows)}`
}

/** Imports, exports, backups: `steps` with `seconds`, and `peakMb` where it was measured. */
export function transferTable({ run, users, bytes, steps }) {
  const rows = steps.map(({ what, seconds, peakMb }) => [
    what,
    seconds.toFixed(1),
    grouped(users / seconds),
    peakMb ?? '',
  ])
  const input = `${grouped(users)} users, ${grouped(bytes / 1e6)} MB of NDJSON`
  return `${describeRun(run)}; ${input}:\n\n${table(['', 's', 'users/s', 'peak memory, MB'], rows)}`
}

/** Followers of changes: for each of the `forms` how many were `shown`, and how late, as `p50Ms` and `p99Ms`. */
export function followTable({ run, users, changesPerSecond, forms }) {
  const rows = forms.map(({ form, shown, p50Ms, p99Ms }) => [
    form,
    grouped(shown),
    p50Ms.toFixed(1),
    p99Ms.toFixed(1),
  ])
  const load = `${grouped(users)} users, ${grouped(changesPerSecond)} writes a second`
  return `${describeRun(run)}; ${load}:\n\n${table(['form', 'changes shown', 'p50 ms', 'p99 ms'], rows)}`
}

function performanceParts(measured) {
  const rowsOf = (group, workload) =>
    measured.compare.find(part => part.group === group && part.workload === workload)
  const parts = {
    read: readTable(rowsOf('sqlite', 'read')),
    workloads: workloadsTable(workload => rowsOf('sqlite', workload).servers),
    postgres: postgresTable(workload => rowsOf('postgres', workload)),
    added: addedTable(group => rowsOf(group, 'read').servers),
  }
  for (const [name, [tableOf, ...engines]] of Object.entries(SHOWN)) {
    for (const engine of engines) parts[`${name} ${engine}`] = tableOf(measured[name][engine])
  }
  return parts
}

function readTable({ run, servers }) {
  const own = servers.find(({ server }) => server === 'service')
  const rows = servers.map(row => [
    SERVERS[row.server].label,
    grouped(row.requestsPerSecond),
    row.p50Ms.toFixed(2),
    row.p99Ms.toFixed(2),
    row.cpuMicros.toFixed(1),
    (row.cpuMicros / own.cpuMicros).toFixed(2),
  ])
  const head = ['server', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs', '÷ this service']
  return `${describeLoad(run)}\n\n${table(head, rows)}`
}

function workloadsTable(serversOf) {
  const workloads = Object.keys(WORKLOADS)
  const rows = serversOf('read').map(({ server }) => {
    const cells = workloads.map(workload => serversOf(workload).find(row => row.server === server))
    const peak = Math.max(...cells.map(row => row?.peakBytes ?? 0))
    const micros = cells.map(row => row?.cpuMicros.toFixed(0) ?? '')
    return [SERVERS[server].label, ...micros, (peak / 1e6).toFixed(0)]
  })
  const labels = workloads.map(workload => WORKLOADS[workload].label)
  return table(['CPU µs per request', ...labels, 'peak memory, MB'], rows)
}

function postgresTable(partOf) {
  const rows = Object.entries(WORKLOADS).map(([workload, { label }]) => {
    const [own, peer] = partOf(workload).servers
    return [
      label,
      own.cpuMicros.toFixed(0),
      own.postgresMicros.toFixed(0),
      peer.cpuMicros.toFixed(0),
      peer.postgresMicros.toFixed(0),
      (peer.cpuMicros / own.cpuMicros).toFixed(2),
      own.p99Ms.toFixed(1),
      peer.p99Ms.toFixed(1),
    ]
  })
  const head = ['CPU µs per request', 'this service', 'of it PostgreSQL', 'Fastify and `pg`']
  head.push('of it PostgreSQL', '÷ this service', 'p99 ms', 'p99 ms of Fastify')
  return `${describeLoad(partOf('read').run)}\n\n${table(head, rows)}`
}

function addedTable(serversOf) {
  const rows = ['sqlite', 'redis', 'keys', 'metrics'].flatMap(group => {
    const servers = serversOf(group)
    return servers.flatMap(({ server, cpuMicros, addedMicros }) => {
      const plain = servers.find(row => row.server === SERVERS[server].plain)
      if (plain === undefined || addedMicros === undefined) return []
      const [before, after, added] = [plain.cpuMicros, cpuMicros, addedMicros]
      return [[SERVERS[server].label, ...[before, after, added].map(micros => micros.toFixed(1))]]
    })
  })
  return table(['GET one, CPU µs', 'without it', 'with it', 'added'], rows)
}

function writeParts(name, parts) {
  const file = new URL(name, DOCS)
  const before = readFileSync(file, 'utf8')
  const replaced = Object.entries(parts).reduce(
    (text, [part, content]) => replacePart(text, part, content),
    before,
  )
  writeFileSync(file, replaced)
}
