import { defineConfig } from 'vitest/config'

const seed = process.env.FAULTS_SEED || String(Math.floor(Math.random() * 2 ** 31))
console.log(`FAULTS_SEED=${seed}`)

/** The long form of the tests that break things, one after another, because they measure too. */
export default defineConfig({
  test: {
    include: ['test/faults/**/*.test.ts'],
    env: { FAULTS: 'long', FAULTS_SEED: seed },
    fileParallelism: false,
    testTimeout: 1_800_000,
    hookTimeout: 60_000,
    disableConsoleIntercept: true,
  },
})
