import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Some tests start the built service, which takes its time on a busy machine; none asserts a time.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Many wait for a process of theirs more than they compute, so that two are not in each other's way on two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
})
