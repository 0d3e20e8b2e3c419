import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Some tests start the built service, which takes its time on a busy machine; none asserts a time.
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
})
