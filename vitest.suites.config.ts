import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { canUsePostgres, forgetPostgresVariables, SKIPPED } from './test/support/programs.ts'
import { TIMERS_ALIAS } from './test/support/timers-alias.ts'

/** Tests of the service and of its stores. They run on SQLite in `npm test`, and on PostgreSQL in the suite `engines`. */
const OF_EACH_ENGINE = [
  'test/{access,contracts,http,limits,ops,security,server,users,webhooks}/**/*.test.ts',
  'test/cli/{access/**/*,database/{check,reindex},limits/bans}.test.ts',
  'test/process/{next-release,one-database}.test.ts',
]

/** Those of them that need no second engine, by the reason. A new test runs on both. */
const OF_ONE_ENGINE = [
  // They open no database, or one of SQLite by its path.
  'test/{access/{api-key,key-ring},limits/{counter-stores,failing-store,matching},ops/line-writer}.test.ts',
  'test/users/passwords/**',
  'test/users/{cursor,user-schemas,user-service,words}.test.ts',
  'test/security/{docs,patterns}.test.ts',
  // They are about what happens before a database is asked, or about what a process counts by itself.
  'test/http/{allowed-hosts,cors,forwarded-prefix,negotiation,pages,request-body,stream}.test.ts',
  'test/limits/{answer-status,cookbook,filter,memory,notices,refused-clients,route-limits,rule-report}.test.ts',
  'test/ops/management/{access,faults,limits,refused-clients,separation,status-history}.test.ts',
  'test/security/{foreign-pages,slow-input}.test.ts',
  'test/server/{admission,connections,stop}.test.ts',
]

/** Tests of PostgreSQL itself. */
const OF_POSTGRES = ['test/engines/postgres/**']

forgetPostgresVariables(process.env)
const skipped = Object.values(SKIPPED).filter(reason => reason !== undefined)
if (skipped.length > 0) console.error(skipped.join('; '))
const required = (process.env.REQUIRE_ENGINES ?? '').split(',')
const missing = Object.entries(SKIPPED).find(([name, why]) => why && required.includes(name))
if (missing !== undefined) throw new Error(`REQUIRE_ENGINES names ${missing[0]}: ${missing[1]}`)

const FAULTS_SEED = process.env.FAULTS_SEED || String(Math.floor(Math.random() * 2 ** 31))
const isLong = process.env.FAULTS === 'long'
if (isLong) console.error(`FAULTS_SEED=${FAULTS_SEED}`)

const onSqlite = { provide: { engine: 'sqlite' as const } }

const onPostgres = {
  globalSetup: ['test/support/start-postgres.ts', 'test/support/start-redis.ts'],
  provide: { engine: 'postgres' as const },
}

/** Their long form measures too, so it runs one file after another, with new random choices each time. */
const ofFaults = isLong
  ? {
      env: { FAULTS_SEED },
      fileParallelism: false,
      testTimeout: 1_800_000,
      disableConsoleIntercept: true,
    }
  : {}

const projects = [
  {
    name: 'engines',
    include: ['test/engines/**/*.test.ts', ...(canUsePostgres ? OF_EACH_ENGINE : [])],
    exclude: [...OF_ONE_ENGINE, ...(canUsePostgres ? [] : OF_POSTGRES)],
    ...(canUsePostgres ? onPostgres : onSqlite),
  },
  { name: 'process', include: ['test/process/**/*.test.ts'], ...onSqlite },
  // One worker, and so one browser. Some tests make a database of PostgreSQL for themselves.
  {
    name: 'pages',
    include: ['test/pages/**/*.test.ts'],
    globalSetup: canUsePostgres ? ['test/support/start-postgres.ts'] : [],
    maxWorkers: 1,
    ...onSqlite,
  },
  { name: 'package', include: ['test/package/**/*.test.ts'], ...onSqlite },
  {
    name: 'faults',
    include: ['test/faults/**/*.test.ts'],
    exclude: ['test/faults/postgres/**'],
    ...onSqlite,
    ...ofFaults,
  },
  ...(canUsePostgres
    ? [
        {
          name: 'faults-postgres',
          include: [
            'test/faults/postgres/**/*.test.ts',
            'test/faults/{killed-batches,model,webhooks}.test.ts',
          ],
          ...onPostgres,
          ...ofFaults,
        },
      ]
    : []),
  // `npm run soak`, which starts its own servers.
  {
    name: 'soak',
    include: ['test/soak/*.test.ts'],
    provide: { engine: 'postgres' as const },
    testTimeout: 24 * 3_600_000,
    disableConsoleIntercept: true,
  },
]

/** The suites beside `npm test`, each a command of package.json that says what it needs. */
export default defineConfig({
  resolve: { alias: TIMERS_ALIAS },
  test: {
    globalSetup: ['test/support/build.ts'],
    isolate: false,
    pool: 'forks',
    // Most wait for processes and servers more than they compute.
    maxWorkers: availableParallelism() + 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
    projects: projects.map(test => ({ extends: true as const, test })),
  },
})
