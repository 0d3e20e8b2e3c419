import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { canUsePostgres, forgetPostgresVariables, SKIPPED } from './test/support/programs.ts'
import { TIMERS_ALIAS } from './test/support/timers-alias.ts'

/** Tests of the service whose answers come from the database. The suite `engines` runs them on PostgreSQL too. */
const OF_EACH_ENGINE = [
  'test/contracts/*.test.ts',
  'test/users/**/*.test.ts',
  'test/http/{api-keys,error-replies,order,request-log}.test.ts',
  'test/server/{pipelining,server}.test.ts',
  'test/limits/{bans,ban-list,by-credential,by-key,reload,rule-functions}.test.ts',
  'test/ops/**/{bans,health,request-counts,status}.test.ts',
  'test/cli/{access/**/*,database/index-words}.test.ts',
  'test/process/{next-release,one-database}.test.ts',
  'test/security/{data-at-rest,forgery,injection,log-secrets,mass-assignment,prototype-pollution,key-secrets}.test.ts',
]

/** Those of them that open no database. */
const OF_NO_ENGINE = ['test/users/{user-schemas,user-service,words,passwords/*}.test.ts']

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
    exclude: [...OF_NO_ENGINE, ...(canUsePostgres ? [] : OF_POSTGRES)],
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
            'test/faults/{killed-batches,model}.test.ts',
          ],
          ...onPostgres,
          ...ofFaults,
        },
      ]
    : []),
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
