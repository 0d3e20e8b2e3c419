import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Only what hangs is to be ended: none asserts a time, and on a busy machine all take their time.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // Many wait for a process of theirs more than they compute, so that two are not in each other's way on two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
})
