// The computed parts of docs/scaling.md: what the measurements mean for more users, requests and machines.
import { describeRun, grouped, isBesideOtherWork, table } from './markdown.mjs'

/** What the measurements do not say. `npm run scaling -- --help` describes them. */
export const ASSUMED = {
  cpuHour: 0.04,
  diskMonth: 0.1,
  requestsPerUserDay: 10,
  peak: 5,
  use: 0.5,
  cellCores: 16,
  restoreHours: 4,
}

/** Of the workload `mix`. */
const WRITES = 0.1

const SIZES = [1e4, 1e5, 1e6, 1e7, 1e8, 1e9]

const ON_SQLITE = { name: 'SQLite, one service', group: 'sqlite', server: 'service' }

const ON_POSTGRES = { name: 'PostgreSQL, one service', group: 'postgres', server: 'postgres' }

const FOUR_ON_POSTGRES = {
  name: 'PostgreSQL, 4 services',
  group: 'postgresServices',
  server: 'postgres-services-4',
}

/** How an entry of the index of e-mails is stored. An address has 30 bytes. */
const INDEX_PAGES = {
  sqlite: { pageBytes: 4096, entryBytes: 42 },
  postgres: { pageBytes: 8192, entryBytes: 48 },
}

/** A B-tree that grew in random order. */
const PAGE_FILL = 0.7

/** A service opens ten, and one to look whether the server is there. */
const CONNECTIONS = 11

/** The defaults of PostgreSQL. A command takes ten, and superusers keep three. */
const MAX_CONNECTIONS = 100
const OTHER_CONNECTIONS = 13
const FREEZE_MAX_AGE = 200e6

const SECONDS_A_DAY = 86_400
const HOURS_A_MONTH = 730

/** The content of each part, by its name. */
export function scalingParts(measured, assumed = ASSUMED) {
  const facts = factsOf(measured)
  return {
    assumptions: assumptions(assumed),
    setups: setups(facts, assumed),
    limits: limits(facts),
    sizes: `${sizes(facts, 'sqlite', 'SQLite')}\n\n${sizes(facts, 'postgres', 'PostgreSQL')}`,
    load: load(facts, assumed),
    cells: cells(facts, assumed),
  }
}

function assumptions({ cpuHour, diskMonth, requestsPerUserDay, peak, use, ...cell }) {
  return table(
    ['assumed', 'value'],
    [
      ['an hour of one CPU', `$${cpuHour.toFixed(3)}`],
      ['a gigabyte of disk for a month', `$${diskMonth.toFixed(2)}`],
      ['requests of one stored user on one day', requestsPerUserDay],
      ['requests that write', percent(WRITES)],
      ['the busiest second, compared with the average of the day', `${peak} times`],
      ['how far a CPU is used in that second', percent(use)],
      ['CPUs of the database server of one cell', cell.cellCores],
      ['longest restore of one cell', `${cell.restoreHours} h`],
    ],
  )
}

/** Figures of the measurements by what they mean. */
function factsOf({ compare, search, transfer }) {
  const rowOf = ({ group, server }, workload) => {
    const part = compare.find(part => part.group === group && part.workload === workload)
    const row = part?.servers.find(row => row.server === server)
    if (row === undefined) throw new Error(`not measured: ${server}, ${group}, ${workload}`)
    return { ...row, coresBusy: coresOf(row.requestsPerSecond, row.cpuMicros + background(row)) }
  }
  const ofEngine = engine => {
    const largest = search[engine].columns.at(-1)
    const { steps, users } = transfer[engine]
    const secondsOf = start => {
      const step = steps.find(({ what }) => what.startsWith(start))
      if (step === undefined) throw new Error(`not measured: ${start}, ${engine}`)
      return step.seconds / users
    }
    return {
      bytesPerUser: largest.bytes / largest.users,
      measuredUsers: largest.users,
      transferredUsers: users,
      importSeconds: secondsOf('import NDJSON'),
      exportSeconds: secondsOf('export NDJSON'),
      backupSeconds: secondsOf(engine === 'sqlite' ? 'backup' : 'pg_dump'),
      restoreSeconds: secondsOf(engine === 'sqlite' ? 'restore' : 'pg_restore'),
      indexWordsSeconds: largest.indexSeconds / largest.users,
      ...(engine === 'postgres' && { vacuumSeconds: secondsOf('VACUUM') }),
    }
  }
  return {
    rowOf,
    // Several send smaller batches than one, which take more CPU.
    many: FOUR_ON_POSTGRES,
    runOf: group => compare.find(part => part.group === group).run,
    sqlite: ofEngine('sqlite'),
    postgres: ofEngine('postgres'),
    redisMicros: rowOf({ group: 'redis', server: 'redis' }, 'read').redisMicros,
  }
}

function setups({ rowOf, runOf }, assumed) {
  const rows = [ON_SQLITE, ON_POSTGRES].map(setup => {
    const [read, mix, create] = ['read', 'mix', 'create'].map(workload => rowOf(setup, workload))
    const micros = mix.cpuMicros + background(mix)
    return [
      setup.name,
      ...[read, mix, create].map(row => grouped(row.requestsPerSecond)),
      mix.coresBusy.toFixed(1),
      Math.round(mix.peakBytes / 1e6),
      micros.toFixed(0),
      `$${((micros / 3600) * assumed.cpuHour).toFixed(4)}`,
      short(usersFor(mix.requestsPerSecond, assumed)),
    ]
  })
  const head = [
    'setup',
    'GET one/s',
    'mix/s',
    'POST/s',
    'CPUs busy with the mix',
    'memory of the service, MB',
    'CPU s for a million of the mix',
    'price of these',
    'users that this serves',
  ]
  const runs = [ON_SQLITE, ON_POSTGRES].map(({ group }) => {
    const run = runOf(group)
    const engine = group === 'sqlite' ? 'SQLite' : 'PostgreSQL'
    const busy = ` The other work took CPUs from ${engine}: do not compare its rows with each other or with others.`
    return `${engine}: ${run.connections} connections, ${describeRun(run)}.${isBesideOtherWork(run) ? busy : ''}`
  })
  return `${table(head, rows)}\n\nMeasured: ${runs.join(' ')}`
}

function limits({ rowOf, redisMicros }) {
  const loop = rowOf(ON_SQLITE, 'mix')
  const mix = rowOf(ON_POSTGRES, 'mix')
  const serverMicros = mix.postgresMicros + background(mix)
  const processes = Math.floor((MAX_CONNECTIONS - OTHER_CONNECTIONS) / CONNECTIONS)
  return [
    `- **SQLite: the event loop.** With the mix it keeps ${loop.coresBusy.toFixed(2)} CPUs busy, at ${grouped(loop.requestsPerSecond)} requests a second of ${loop.cpuMicros.toFixed(0)} µs. JavaScript and SQLite run on one thread, so more CPUs help one service little. Several services on the file share the reads, and take turns with the writes.`,
    `- **PostgreSQL: the CPUs.** A request of the mix takes ${serverMicros.toFixed(0)} µs in the server with one service, and more with several, because each sends smaller batches. So a CPU of the server is used up by at most ${grouped(1e6 / serverMicros)} requests a second, and one service by about ${grouped(1e6 / (mix.cpuMicros - mix.postgresMicros))}.`,
    `- **PostgreSQL: connections.** A service takes up to ${CONNECTIONS}. With \`max_connections = ${MAX_CONNECTIONS}\` that is ${processes} services; with 500 it is ${Math.floor((500 - OTHER_CONNECTIONS) / CONNECTIONS)}.`,
    `- **Redis: far away.** A counted limit takes ${redisMicros.toFixed(1)} µs of its CPU, so its one thread counts for about ${grouped(1e6 / redisMicros)} requests a second. Before that, each request waits for one round trip more.`,
  ].join('\n')
}

function sizes(facts, engine, name) {
  const known = facts[engine]
  const { pageBytes, entryBytes } = INDEX_PAGES[engine]
  const fanout = Math.floor((pageBytes * PAGE_FILL) / entryBytes)
  const row = (label, cell) => [label, ...SIZES.map(cell)]
  const rows = [
    row('database', users => inBytes(users * known.bytesPerUser)),
    row('index of e-mails', users => inBytes((users * entryBytes) / PAGE_FILL)),
    row('pages from its root to an entry', users => depth(users, fanout)),
    row('import', users => inTime(users * known.importSeconds)),
    row('export', users => inTime(users * known.exportSeconds)),
    row(engine === 'sqlite' ? '`backup`' : '`pg_dump`', users =>
      inTime(users * known.backupSeconds),
    ),
    row(engine === 'sqlite' ? '`restore`' : '`pg_restore`', users =>
      inTime(users * known.restoreSeconds),
    ),
    row('index all words', users => inTime(users * known.indexWordsSeconds)),
  ]
  if (known.vacuumSeconds !== undefined) {
    rows.push(row('`VACUUM FREEZE` of all tables', users => inTime(users * known.vacuumSeconds)))
  }
  return [
    table([name, ...SIZES.map(short)], rows),
    `Measured: ${known.bytesPerUser.toFixed(0)} bytes a user with ${short(known.measuredUsers)} users, and times with ${short(known.transferredUsers)}. All else in this table is extrapolated in proportion, and the index by ${entryBytes} bytes an entry in pages of ${pageBytes} bytes that are ${percent(PAGE_FILL)} full.`,
  ].join('\n\n')
}

function load({ rowOf, many, postgres }, assumed) {
  const mix = rowOf(many, 'mix')
  const serverMicros = mix.postgresMicros + background(mix)
  const serviceMicros = mix.cpuMicros - mix.postgresMicros
  const rows = SIZES.slice(2).map(users => {
    const average = (users * assumed.requestsPerUserDay) / SECONDS_A_DAY
    const peak = average * assumed.peak
    const serverCpus = atLeastOne(coresOf(peak, serverMicros) / assumed.use)
    const services = atLeastOne(coresOf(peak, serviceMicros) / assumed.use)
    const cpus = (serverCpus + services) * HOURS_A_MONTH * assumed.cpuHour
    const disk = ((users * postgres.bytesPerUser) / 1e9) * assumed.diskMonth
    return [
      short(users),
      grouped(average),
      grouped(peak),
      grouped(peak * WRITES),
      grouped(services),
      grouped(serverCpus),
      grouped(services * CONNECTIONS + OTHER_CONNECTIONS),
      inTime(FREEZE_MAX_AGE / (average * WRITES)),
      `$${grouped(cpus)}`,
      `$${grouped(disk)}`,
    ]
  })
  const head = [
    'users',
    'requests/s, average',
    'at the peak',
    'of these writes',
    'services',
    'CPUs of PostgreSQL',
    'connections',
    'time until a freeze is forced',
    'CPUs a month',
    'disk a month',
  ]
  return `${table(head, rows)}\n\nThe services and the CPUs are computed from the measured mix with this setup: ${many.name}.`
}

function cells({ rowOf, many, postgres }, assumed) {
  const mix = rowOf(many, 'mix')
  const serverMicros = mix.postgresMicros + background(mix)
  const byCpu = usersFor((assumed.cellCores * 1e6) / serverMicros, assumed)
  const byRestore = (assumed.restoreHours * 3600) / postgres.restoreSeconds
  const users = Math.min(byCpu, byRestore)
  const rows = SIZES.slice(3).map(all => [short(all), Math.ceil(all / users)])
  return [
    `- ${assumed.cellCores} CPUs at ${percent(assumed.use)} serve ${short(byCpu)} users: ${assumed.cellCores} × ${assumed.use} × 1,000,000 ÷ ${serverMicros.toFixed(0)} µs, divided by the requests of a user in the busiest second.`,
    `- In ${assumed.restoreHours} h, \`pg_restore\` brings back ${short(byRestore)} users.`,
    `- So a cell holds ${short(users)} users, and ${users === byRestore ? 'the restore decides' : 'the CPUs decide'} it. Its database has ${inBytes(users * postgres.bytesPerUser)}.`,
    '',
    table(['users', 'cells'], rows),
  ].join('\n')
}

/** How many users send so many requests a second in the busiest second, on CPUs that are used no further than assumed. */
function usersFor(requestsPerSecond, { requestsPerUserDay, peak, use }) {
  return (requestsPerSecond * use) / peak / (requestsPerUserDay / SECONDS_A_DAY)
}

function background({ backgroundMicros = 0 }) {
  return backgroundMicros
}

function coresOf(requestsPerSecond, micros) {
  return (requestsPerSecond * micros) / 1e6
}

function depth(users, fanout) {
  return Math.ceil(Math.log(users) / Math.log(fanout))
}

function atLeastOne(number) {
  return Math.max(1, Math.ceil(number))
}

function percent(share) {
  return `${Math.round(share * 100)} %`
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
