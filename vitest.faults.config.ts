import { configDefaults, defineConfig } from 'vitest/config'
import {
  canUsePostgres,
  forgetPostgresVariables,
  skippedOnPostgres,
} from './test/support/postgres-settings.ts'

const seed = process.env.FAULTS_SEED || String(Math.floor(Math.random() * 2 ** 31))
console.log(`FAULTS_SEED=${seed}`)

const OF_POSTGRES = 'test/faults/postgres/**/*.test.ts'

forgetPostgresVariables(process.env)
const skipped = skippedOnPostgres()
if (skipped !== undefined) console.error(skipped)

const sqlite = {
  name: 'sqlite',
  include: ['test/faults/**/*.test.ts'],
  exclude: [...configDefaults.exclude, OF_POSTGRES],
  provide: { engine: 'sqlite' as const },
}

const postgres = {
  name: 'postgres',
  include: [OF_POSTGRES, 'test/faults/model.test.ts'],
  globalSetup: ['test/support/start-postgres.ts'],
  provide: { engine: 'postgres' as const },
}

/** The long form of the tests that break things, one after another, because they measure too. */
export default defineConfig({
  test: {
    env: { FAULTS: 'long', FAULTS_SEED: seed },
    fileParallelism: false,
    testTimeout: 1_800_000,
    hookTimeout: 60_000,
    disableConsoleIntercept: true,
    projects: [sqlite, ...(canUsePostgres ? [postgres] : [])].map(test => ({
      extends: true as const,
      test,
    })),
  },
})
