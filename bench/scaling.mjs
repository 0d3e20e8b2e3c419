// The computed parts of docs/scaling.md: what the measurements mean for more users, requests and machines.
import { grouped, table } from './markdown.mjs'
import { describeLoad } from './summary.mjs'

/** What the measurements do not say. Each has its meaning in the table of `assumptions`. */
const CPU_HOUR_DOLLARS = 0.04
const DISK_MONTH_DOLLARS = 0.1
const REQUESTS_A_DAY = 10
const PEAK = 5
const USE = 0.5
const CELL_CPUS = 16
const RESTORE_HOURS = 4

/** Of the workload `mix`. */
const WRITES = 0.1

const SIZES = [1e4, 1e6, 1e7, 1e8, 1e9]

const SETUPS = [
  ['SQLite, one service', 'services', 'service'],
  ['SQLite, 2 services', 'services', 'services-2'],
  ['SQLite, 4 services', 'services', 'services-4'],
  ['PostgreSQL, one service', 'postgresServices', 'postgres'],
  ['PostgreSQL, 2 services', 'postgresServices', 'postgres-services-2'],
  ['PostgreSQL, 4 services', 'postgresServices', 'postgres-services-4'],
]

/** A service opens up to 15, and one to look whether the server is there. */
const CONNECTIONS = 16

/** A command takes 11, and superusers keep three. */
const OTHER_CONNECTIONS = 14

/** The default of PostgreSQL. */
const FREEZE_MAX_AGE = 200e6

const SECONDS_A_DAY = 86_400
const HOURS_A_MONTH = 730

/** The content of each part, by its name. */
export function scalingParts(measured) {
  const facts = factsOf(measured)
  const assumptions = [
    ['price of an hour of one CPU, in dollars', CPU_HOUR_DOLLARS],
    ['price of a gigabyte of disk for a month, in dollars', DISK_MONTH_DOLLARS],
    ['requests of one stored user on one day', REQUESTS_A_DAY],
    ['requests of the busiest second, divided by the average', PEAK],
    ['how far a CPU is used in that second', USE],
    ['CPUs of the database server of one cell', CELL_CPUS],
    ['longest restore of one cell, in hours', RESTORE_HOURS],
  ]
  return {
    assumptions: table(['assumed', 'value'], assumptions),
    setups: setups(measured),
    sizes: sizes(facts),
    load: load(facts),
    cells: cells(facts),
  }
}

/** Figures of the measurements by what they mean. */
function factsOf(measured) {
  const ofEngine = engine => {
    const { bytes, users } = measured.scale[engine].columns.at(-1)
    const { steps, users: moved } = measured.transfer[engine]
    const secondsOf = start => steps.find(({ what }) => what.startsWith(start)).seconds / moved
    return {
      bytesPerUser: bytes / users,
      importSeconds: secondsOf('import NDJSON'),
      exportSeconds: secondsOf('export NDJSON'),
      backupSeconds: secondsOf(engine === 'sqlite' ? 'backup' : 'pg_dump'),
      restoreSeconds: secondsOf(engine === 'sqlite' ? 'restore' : 'pg_restore'),
    }
  }
  // Several services send smaller batches than one, which take more CPU.
  const mix = rowOf(measured, 'postgresServices', 'mix', 'postgres-services-4')
  const redis = rowOf(measured, 'redis', 'read', 'redis')
  return {
    sqlite: ofEngine('sqlite'),
    postgres: ofEngine('postgres'),
    serverMicros: mix.postgresMicros,
    serviceMicros: mix.cpuMicros - mix.postgresMicros + redis.addedMicros - redis.redisMicros,
    redisMicros: redis.redisMicros,
  }
}

function setups(measured) {
  const rows = SETUPS.map(([name, group, server]) => {
    const [read, mix, create] = ['read', 'mix', 'create'].map(workload =>
      rowOf(measured, group, workload, server),
    )
    return [
      name,
      ...[read, mix, create].map(row => grouped(row.requestsPerSecond)),
      mix.cpuMicros.toFixed(0),
      grouped(mix.peakBytes / 1e6),
      short(usersFor(mix.requestsPerSecond)),
    ]
  })
  const head = ['setup', 'GET one/s', 'mix/s', 'POST/s', 'CPU µs of the mix', 'memory, MB']
  const { run } = partOf(measured, 'services', 'mix')
  return `${describeLoad(run)}\n\n${table([...head, 'users that this serves, computed'], rows)}`
}

function sizes({ sqlite, postgres }) {
  const row = (label, cell) => [label, ...SIZES.map(cell)]
  const rows = [
    ['SQLite', sqlite, ['`backup`', '`restore`']],
    ['PostgreSQL', postgres, ['`pg_dump`', '`pg_restore`']],
  ].flatMap(([name, known, [backup, restore]]) => [
    row(`${name}: database`, users => inBytes(users * known.bytesPerUser)),
    row('import', users => inTime(users * known.importSeconds)),
    row('export', users => inTime(users * known.exportSeconds)),
    row(backup, users => inTime(users * known.backupSeconds)),
    row(restore, users => inTime(users * known.restoreSeconds)),
  ])
  return table(['users', ...SIZES.map(short)], rows)
}

function load({ serverMicros, serviceMicros, redisMicros, postgres }) {
  const rows = SIZES.slice(1).map(users => {
    const average = (users * REQUESTS_A_DAY) / SECONDS_A_DAY
    const peak = average * PEAK
    const cpusOf = micros => Math.max(1, Math.ceil((peak * micros) / 1e6 / USE))
    const [services, servers, redis] = [serviceMicros, serverMicros, redisMicros].map(cpusOf)
    const disk = ((users * postgres.bytesPerUser) / 1e9) * DISK_MONTH_DOLLARS
    return [
      short(users),
      grouped(peak),
      grouped(services),
      grouped(servers),
      grouped(redis),
      grouped(services * CONNECTIONS + OTHER_CONNECTIONS),
      inTime(FREEZE_MAX_AGE / (average * WRITES)),
      `$${grouped((services + servers + redis) * HOURS_A_MONTH * CPU_HOUR_DOLLARS)}`,
      `$${grouped(disk)}`,
    ]
  })
  const head = ['users', 'requests/s at the peak', 'services', 'CPUs of PostgreSQL']
  head.push('CPUs of Redis', 'connections', 'time until a freeze is forced')
  return table([...head, 'CPUs a month', 'disk a month'], rows)
}

function cells({ serverMicros, postgres }) {
  const byCpu = usersFor((CELL_CPUS * 1e6) / serverMicros)
  const byRestore = (RESTORE_HOURS * 3600) / postgres.restoreSeconds
  const users = Math.min(byCpu, byRestore)
  const rows = [
    [`${CELL_CPUS} CPUs of PostgreSQL serve`, `${short(byCpu)} users`],
    [`\`pg_restore\` brings back in ${RESTORE_HOURS} h`, `${short(byRestore)} users`],
    ['so a cell holds', `${short(users)} users, ${inBytes(users * postgres.bytesPerUser)}`],
    ['and a billion users need', `${Math.ceil(1e9 / users)} cells`],
  ]
  return table(['a cell', 'computed'], rows)
}

function partOf({ compare }, group, workload) {
  const part = compare.find(part => part.group === group && part.workload === workload)
  if (part === undefined) throw new Error(`not measured: ${group}, ${workload}`)
  return part
}

function rowOf(measured, group, workload, server) {
  return partOf(measured, group, workload).servers.find(row => row.server === server)
}

/** How many users send so many requests a second in the busiest second, on CPUs that are used no further than assumed. */
function usersFor(requestsPerSecond) {
  return (requestsPerSecond * USE) / PEAK / (REQUESTS_A_DAY / SECONDS_A_DAY)
}

function short(number) {
  if (number >= 1e9) return `${rounded(number / 1e9)} billion`
  if (number >= 1e6) return `${rounded(number / 1e6)} million`
  return grouped(Number(number.toPrecision(2)))
}

function inBytes(bytes) {
  const [size, unit] = bytes >= 1e12 ? [1e12, 'TB'] : bytes >= 1e9 ? [1e9, 'GB'] : [1e6, 'MB']
  return `${rounded(bytes / size)} ${unit}`
}

function inTime(seconds) {
  if (seconds >= 2 * SECONDS_A_DAY) return `${rounded(seconds / SECONDS_A_DAY)} d`
  if (seconds >= 7200) return `${rounded(seconds / 3600)} h`
  if (seconds >= 120) return `${rounded(seconds / 60)} min`
  return `${rounded(seconds)} s`
}

/** With two digits, or all before the point. */
function rounded(number) {
  return number >= 10 ? grouped(number) : String(Number(number.toPrecision(2)))
}
