import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'
import { skippedOnNginx } from './test/support/nginx-settings.ts'
import {
  canUsePostgres,
  forgetPostgresVariables,
  skippedOnPostgres,
} from './test/support/postgres-settings.ts'
import { skippedOnPrometheus } from './test/support/prometheus-settings.ts'
import { skippedOnRedis } from './test/support/redis-settings.ts'

/** Tests of PostgreSQL itself. */
const OF_POSTGRES = 'test/{storage,faults}/postgres/**/*.test.ts'

/** Tests of the service that say the same of each engine. They run on PostgreSQL too. */
const OF_EACH_ENGINE = [
  'test/{http,limits,ops,users}/**/*.test.ts',
  'test/several-services/**/*.test.ts',
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

forgetPostgresVariables(process.env)
for (const skippedOn of [skippedOnPostgres, skippedOnRedis, skippedOnPrometheus, skippedOnNginx]) {
  const skipped = skippedOn()
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
  include: [...OF_EACH_ENGINE, OF_POSTGRES],
  exclude: [...configDefaults.exclude, ...OF_NO_ENGINE],
  globalSetup: ['test/support/start-postgres.ts'],
  provide: { engine: 'postgres' as const },
  // A service gives a database 1.5 seconds to answer. On a busy machine that may be too short once, but not twice.
  retry: 1,
}

export default defineConfig({
  test: {
    // Only what hangs is to be ended: none asserts a time, and on a busy machine all take their time.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Many wait for a process of theirs or for a database more than they compute: with as many as cores, half of the machine idles.
    maxWorkers: availableParallelism() + 2,
    projects: [sqlite, ...(canUsePostgres ? [postgres] : [])].map(test => ({
      extends: true as const,
      test,
    })),
  },
})
