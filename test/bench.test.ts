import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPostgresCluster, type PostgresCluster } from './support/postgres-cluster.ts'
import { canStartClusters, canUsePostgres, skippedOnPostgres } from './support/postgres-settings.ts'

const path = (relative: string) => fileURLToPath(new URL(`../${relative}`, import.meta.url))

const areInstalled = existsSync(path('bench/node_modules/fastify'))

if (!areInstalled) console.log('skipped: npm ci --prefix bench installs the peers of npm run bench')
if (!canUsePostgres) console.log(`skipped: ${skippedOnPostgres()}`)

let cluster: PostgresCluster | undefined

// Only the comparison of all servers starts a server of its own, which takes seconds.
beforeAll(async () => {
  if (canStartClusters) cluster = await createPostgresCluster()
})

afterAll(() => cluster?.remove())

/** What takes the least time. */
const BRIEF = ['--seconds', '1', '--warm-up', '0', '--connections', '4']

function runs(script: string, ...args: readonly string[]) {
  const env = cluster && { ...process.env, BENCH_POSTGRES_URL: cluster.url() }
  return promisify(execFile)('node', [path(`bench/${script}`), ...args], { env })
}

const ENGINES = canUsePostgres ? 2 : 1

/** Those that create users, with two and four services on each engine. */
const SERVERS = (canUsePostgres ? 8 : 6) + 2 * ENGINES

/** One service is in the table of several services of its engine too. */
const ROWS = SERVERS + ENGINES

const hasRedis = spawnSync('redis-server', ['--version']).status === 0

if (!hasRedis) console.log('skipped: npm run bench with Redis needs redis-server')

test.skipIf(!areInstalled)(
  'npm run bench measures the service and each of its peers',
  async () => {
    const options = [...BRIEF, '--rounds', '1', '--workloads', 'create']
    const { stdout } = await promisify(execFile)('node', [path('bench/compare.mjs'), ...options])
    const rows = stdout.split('\n').filter(line => /^\| [^|]+\| [\d,]+ \| [\d.]+ \|/.test(line))
    expect(rows).toHaveLength(ROWS)
    const memory = stdout.slice(stdout.indexOf('Peak memory')).split('\n')
    expect(memory.filter(line => /\| \d+ \|$/.test(line))).toHaveLength(SERVERS)
  },
  600_000,
)

test.skipIf(!areInstalled)(
  'npm run bench compares refusals with a GET of one user where the server gives them',
  async () => {
    const workloads = 'read,missing,query,blocked,throttled'
    const options = [...BRIEF, '--rounds', '1', '--servers', 'service,limited']
    const { stdout } = await promisify(execFile)('node', [
      path('bench/compare.mjs'),
      ...options,
      '--workloads',
      workloads,
    ])
    const refusals = stdout
      .split('\n')
      .filter(line => /^\| this [^|]+(\| [^|]* ){7}\| [\d.]+ \|$/.test(line))
    expect(refusals).toHaveLength(2 + 2 + 1 + 1)
  },
  60_000,
)

test.skipIf(!areInstalled)(
  'npm run bench measures what an API key adds to a request',
  async () => {
    const brief = [...BRIEF, '--rounds', '2']
    const options = ['--servers', 'service,keys', '--workloads', 'read']
    const { stdout } = await runs('compare.mjs', ...brief, ...options)
    const rows = stdout
      .slice(stdout.indexOf('with an API key'))
      .split('\n')
      .filter(line => /^\| [^|]+\| [\d,]+ \| [\d.]+ \|/.test(line))
      .map(line => line.split('|').map(cell => cell.trim()))
    expect(rows.map(([, server]) => server)).toEqual([
      'this service',
      'this service, an API key required',
    ])
    const added = rows.map(cells => cells[6])
    expect(added).toEqual(['', expect.stringMatching(/^-?\d+\.\d$/)])
  },
  180_000,
)

test.skipIf(!areInstalled)(
  'npm run bench measures what metrics add to a request, and the time of a scrape',
  async () => {
    const brief = [...BRIEF, '--rounds', '1']
    const options = ['--servers', 'service,metrics,metrics-rules', '--workloads', 'read']
    const { stdout } = await runs('compare.mjs', ...brief, ...options)
    const rows = stdout
      .slice(stdout.indexOf('with metrics'))
      .split('\n')
      .filter(line => /^\| [^|]+\| [\d,]+ \| [\d.]+ \|/.test(line))
      .map(line => line.split('|').map(cell => cell.trim()))
    const number = expect.stringMatching(/^-?\d+\.\d$/)
    expect(rows.map(cells => cells.slice(6, 9))).toEqual([
      ['', '', ''],
      [number, number, number],
      ['', '', number],
    ])
  },
  180_000,
)

test.skipIf(!areInstalled || !hasRedis)(
  'npm run bench measures what a limit in Redis adds, with the CPU time of Redis',
  async () => {
    const brief = [...BRIEF, '--rounds', '1']
    const servers = 'service,redis,express-plain,express-redis'
    const chosen = ['--servers', servers, '--workloads', 'read']
    const { stdout } = await runs('compare.mjs', ...brief, ...chosen)
    const rows = stdout
      .slice(stdout.indexOf('with a limit in Redis'))
      .split('\n')
      .filter(line => /^\| [^|]+\| [\d,]+ \| [\d.]+ \|/.test(line))
    const ofRedis = rows.map(line => Number(line.split('|')[6]))
    expect(ofRedis).toEqual([0, expect.any(Number), 0, expect.any(Number)])
    expect(ofRedis[1]).toBeGreaterThan(0)
    expect(ofRedis[3]).toBeGreaterThan(0)
  },
  180_000,
)

test.skipIf(!areInstalled || !canUsePostgres)(
  'npm run bench measures the CPU time of PostgreSQL, for the same page and for different ones',
  async () => {
    const brief = [...BRIEF, '--rounds', '1']
    const chosen = ['--servers', 'postgres,fastify-pg', '--workloads', 'read,pages']
    const { stdout } = await runs('compare.mjs', ...brief, ...chosen)
    const ratios = stdout
      .split('\n')
      .filter(line => /^\| Fastify .*\| [\d.]+ \| [\d.]+ \|$/.test(line))
    expect(ratios).toHaveLength(2)
    const rows = ratios.map(line => line.split('|').slice(5).map(Number))
    for (const [all, ofPostgres = 0, , ratio] of rows) {
      expect(all).toBeGreaterThan(ofPostgres)
      expect(ofPostgres).toBeGreaterThan(0)
      expect(ratio).toBeGreaterThan(0)
    }
  },
  180_000,
)

test.skipIf(!canUsePostgres)(
  'npm run bench:scale compares deep pages with first ones on PostgreSQL',
  async () => {
    const { stdout } = await runs('scale.mjs', '--engine', 'postgres', '10000')
    const rows = stdout
      .split('\n')
      .filter(line => /^\| (first|deep) page.* \| [\d.]+ \|$/.test(line))
    expect(rows).toHaveLength(5 + 5 + 1 + 1)
  },
  300_000,
)

test('npm run bench:search measures lists with q', async () => {
  const { stdout } = await runs('search.mjs', '2000')
  const rows = stdout.split('\n').filter(line => /^\| .* \| [\d.]+, [\d.]+ \|$/.test(line))
  expect(rows.length).toBeGreaterThan(10)
}, 300_000)

test.each(['scale', 'search', 'transfer'])(
  'npm run bench:%s refuses an unknown engine',
  async name => {
    const { code, stderr } = await runs(`${name}.mjs`, '--engine', 'mysql').catch(error => error)
    expect([code, stderr]).toEqual([2, '--engine must be sqlite or postgres\n'])
  },
)

test.each(canUsePostgres ? ['sqlite', 'postgres'] : ['sqlite'])(
  'npm run bench:search -- --words measures what the index adds on %s',
  async engine => {
    const options = ['--words', '--rounds', '1', '--engine', engine]
    const { stdout } = await runs('search.mjs', ...options, '5000')
    const rows = stdout.split('\n').filter(line => /^\| an? .*( [\d.]+ \|){3}$/.test(line))
    expect(rows).toHaveLength(2)
  },
  600_000,
)

test.each([
  ['--rounds', '0', '--rounds must be a whole number from 1 to 100'],
  ['--servers', 'rails', '--servers: there is no rails; known are service,'],
  ['--workloads', 'read,write', '--workloads: there is no write; known are read,'],
])('npm run bench refuses %s %s', async (option, value, message) => {
  const { code, stderr } = await promisify(execFile)('node', [
    path('bench/compare.mjs'),
    option,
    value,
  ]).catch(error => error)
  expect(code).toBe(2)
  expect(stderr).toContain(message)
})

test.each([
  { engine: 'sqlite', steps: 10 },
  { engine: 'postgres', steps: 11 },
])(
  'npm run bench:transfer imports, kills, resumes, exports and restores on $engine',
  async ({ engine, steps }) => {
    if (engine === 'postgres' && !canUsePostgres) return
    const { stdout } = await runs('transfer.mjs', '--engine', engine, '5000')
    expect(
      stdout.split('\n').filter(line => /\| [\d.]+ \| [\d,]+ \| \d* \|$/.test(line)),
    ).toHaveLength(steps)
    expect(stdout).toContain('The exports are byte for byte equal to what was imported.')
  },
  600_000,
)
