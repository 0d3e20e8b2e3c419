import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'
import {
  canUsePostgres,
  forgetPostgresVariables,
  skippedOnPostgres,
} from './test/support/postgres-settings.ts'

/** Tests of PostgreSQL itself. */
const OF_POSTGRES = 'test/{storage,faults}/postgres/**/*.test.ts'

forgetPostgresVariables(process.env)
const skipped = skippedOnPostgres()
if (skipped !== undefined) console.error(skipped)

const sqlite = {
  name: 'sqlite',
  include: ['test/**/*.test.ts'],
  exclude: [...configDefaults.exclude, OF_POSTGRES],
  provide: { engine: 'sqlite' as const },
}

const postgres = {
  name: 'postgres',
  include: [OF_POSTGRES],
  globalSetup: ['test/support/start-postgres.ts'],
  provide: { engine: 'postgres' as const },
}

export default defineConfig({
  test: {
    // Only what hangs is to be ended: none asserts a time, and on a busy machine all take their time.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Many wait for a process of theirs more than they compute, so that two are not in each other's way on two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [sqlite, ...(canUsePostgres ? [postgres] : [])].map(test => ({
      extends: true as const,
      test,
    })),
  },
})
