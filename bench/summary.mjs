// The rounds of `npm run bench` as tables: for each group and workload the medians of each server.
import { WORKLOADS } from './load.mjs'
import { describeRun, grouped, table } from './markdown.mjs'
import { GROUPS, SERVERS, takesPart } from './servers.mjs'

/** The tables, each with the medians of its servers and the `run`. */
export function summarize(rows, run) {
  const tables = Object.keys(GROUPS).flatMap(group =>
    Object.keys(WORKLOADS).map(workload => {
      const own = rows.filter(row => row.workload === workload)
      const servers = serversOf(group, workload)
        .filter(server => own.some(row => row.server === server))
        .map(server => medians(own, server))
      return { group, workload, run, servers }
    }),
  )
  return tables.filter(({ group, servers }) => servers.some(({ server }) => isOf(group, server)))
}

/** Whether a table has every server that belongs to it. */
export function isComplete({ group, workload, servers }) {
  return servers.length === serversOf(group, workload).length
}

/** The title of a table, such as `PUT, on PostgreSQL`. */
export function titleOf({ group, workload }) {
  return `${WORKLOADS[workload].label}${GROUPS[group].title}`
}

/** All tables for the terminal. */
export function reportOf(tables) {
  const parts = tables.map(part => {
    const rows = part.servers.map(row => [
      SERVERS[row.server].label,
      grouped(row.requestsPerSecond),
      row.p50Ms.toFixed(2),
      row.p99Ms.toFixed(2),
      row.cpuMicros.toFixed(1),
      row.postgresMicros.toFixed(1),
      row.redisMicros.toFixed(1),
      row.addedMicros?.toFixed(1) ?? '',
      (row.peakBytes / 1e6).toFixed(0),
    ])
    const head = ['server', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs per request']
    head.push('of it PostgreSQL', 'Redis', 'added to the same without it', 'peak memory, MB')
    return `### ${titleOf(part)}\n\n${table(head, rows)}`
  })
  return [describeLoad(tables[0].run), ...parts].join('\n\n')
}

/** How a table was measured, in one line. */
export function describeLoad({ generator, rounds, seconds, connections, users, ...run }) {
  const load = `${generator} with ${connections} connections, ${grouped(users)} users`
  return `${describeRun(run)}; ${load}, medians of ${rounds} alternating rounds of ${seconds} s:`
}

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

function isOf(group, server) {
  return SERVERS[server].group === group
}

/** The servers of a table, in their order: the base and those of the group. */
function serversOf(group, workload) {
  return Object.keys(SERVERS).filter(
    server => (isOf(group, server) && takesPart(server, workload)) || server === GROUPS[group].base,
  )
}

function medians(rows, server) {
  const own = rows.filter(row => row.server === server)
  const { server: _, workload, round, ...numbers } = own[0]
  const keys = Object.keys(numbers)
  return {
    server,
    ...Object.fromEntries(keys.map(key => [key, median(own.map(row => row[key]))])),
    addedMicros: addedMicros(rows, server),
  }
}

/**
 * The CPU time that a request takes more than on the same server without what is measured, by its `plain`: the median of the
 * rounds, each compared with itself, because the machine changes between them. Undefined for a server without `plain`.
 */
function addedMicros(rows, server) {
  const { plain } = SERVERS[server]
  const added = rows
    .filter(row => row.server === server)
    .flatMap(({ round, cpuMicros }) => {
      const without = rows.find(row => row.server === plain && row.round === round)
      return without === undefined ? [] : [cpuMicros - without.cpuMicros]
    })
  return added.length === 0 ? undefined : median(added)
}
