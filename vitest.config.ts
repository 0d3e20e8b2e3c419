import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import {
  canUsePostgres,
  forgetPostgresVariables,
  skippedOnPostgres,
} from './test/support/postgres-settings.ts'
import { skippedOnPrometheus } from './test/support/prometheus-settings.ts'
import { canUseRedis, skippedOnRedis } from './test/support/redis-settings.ts'

/** Tests of PostgreSQL itself. */
const OF_POSTGRES = 'test/{storage,faults}/postgres/**/*.test.ts'

/** Tests of the service that say the same of each engine. They run on PostgreSQL too. */
const OF_EACH_ENGINE = [
  'test/{http,limits,ops,users}/**/*.test.ts',
  'test/cli/access/**/*.test.ts',
  'test/security/{data-at-rest,forgery,injection,log-secrets,mass-assignment,prototype-pollution,key-secrets}.test.ts',
  'test/faults/model.test.ts',
  'test/storage/upgrade.test.ts',
]

/** Those of them that open no database, or are about what no database changes. */
const OF_NO_ENGINE = [
  'test/http/{document,pages}/**',
  'test/http/server/newcomers.test.ts',
  'test/ops/management/{page,status-history,status-of}.test.ts',
  'test/limits/memory-counter-store.test.ts',
  'test/limits/rules/**',
  'test/ops/{line-writer,terminal-log}.test.ts',
  'test/ops/metrics/{keep-labels,recent-lag,render-metrics}.test.ts',
  'test/users/{canonical-json,even-times,password-digest,passwords,user-schemas}.test.ts',
]

/** Those of them that ask the limiter itself, or have workers of their own, for which the service is inside the test process. */
const INSIDE = 'test/limits/{ban-control,rule-report,workers}.test.ts'

forgetPostgresVariables(process.env)
for (const skipped of [skippedOnPostgres(), skippedOnRedis(), skippedOnPrometheus()]) {
  if (skipped !== undefined) console.error(skipped)
}

const sqlite = {
  name: 'sqlite',
  include: ['test/**/*.test.ts'],
  exclude: [...configDefaults.exclude, OF_POSTGRES],
  provide: { engine: 'sqlite' as const },
}

const postgres = {
  name: 'postgres',
  include: [...OF_EACH_ENGINE, OF_POSTGRES, 'test/workers/management*.test.ts'],
  exclude: [...configDefaults.exclude, ...OF_NO_ENGINE],
  globalSetup: ['test/support/start-postgres.ts'],
  provide: { engine: 'postgres' as const },
  // A service gives a database 1.5 seconds to answer. On a busy machine that may be too short once, but not twice.
  retry: 1,
}

/** Whether the tests with several processes are all tests of the service, as `npm run test:workers` wants it. */
const isWorkersSuite = process.env.WORKERS_SUITE === 'all'

/** The tests of the service with several processes in place of one. */
const workers = {
  ...sqlite,
  name: 'workers',
  include: isWorkersSuite
    ? OF_EACH_ENGINE
    : ['test/limits/bans.test.ts', 'test/users/{idempotent-create,list-walk}.test.ts'],
  exclude: [...configDefaults.exclude, ...OF_NO_ENGINE, INSIDE],
  globalSetup: ['test/support/start-spawned-run.ts'],
  provide: { ...sqlite.provide, spawnedEnv: { WORKERS: '2' } },
  // Lines of two processes may have the same millisecond, and then the order in which they were read.
  retry: 1,
}

/** The same, with all that they share outside of them. */
const workersOnRedis = {
  ...workers,
  name: 'workers-redis',
  include: isWorkersSuite
    ? OF_EACH_ENGINE
    : ['test/limits/{cookbook,specification-examples}.test.ts', 'test/users/list-walk.test.ts'],
  globalSetup: ['test/support/start-postgres.ts', ...workers.globalSetup],
  provide: {
    ...postgres.provide,
    spawnedEnv: { ...workers.provide.spawnedEnv, CACHE_STORE: 'redis' },
  },
}

/** Files with several processes first: they take longest, and otherwise one would still run when all others have ended. */
class WorkersFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const hasWorkers = ({ project }: TestSpecification) => project.name.startsWith('workers')
    const sorted = await super.sort(files)
    return [...sorted.filter(hasWorkers), ...sorted.filter(file => !hasWorkers(file))]
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: WorkersFirst },
    // Only what hangs is to be ended: none asserts a time, and on a busy machine all take their time.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Many wait for a process of theirs or for a database more than they compute: with as many as cores, half of the machine idles.
    maxWorkers: availableParallelism() + 2,
    projects: [
      sqlite,
      workers,
      ...(canUsePostgres ? [postgres] : []),
      ...(canUsePostgres && canUseRedis ? [workersOnRedis] : []),
    ].map(test => ({
      extends: true as const,
      test,
    })),
  },
})
