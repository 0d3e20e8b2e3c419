import { existsSync, statfsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { TIMERS_ALIAS } from './test/support/timers-alias.ts'

/** What `npm test` leaves out: suites that need more than Node or more than seconds. See `vitest.suites.config.ts`. */
const FURTHER_SUITES = ['engines', 'process', 'pages', 'package', 'faults']

const LEFT_OUT = [...FURTHER_SUITES, 'soak']

/** Its files are in memory, where syncing a database to disk takes no time. */
const IN_MEMORY = '/dev/shm'

if (!existsSync(new URL('dist/main.js', import.meta.url))) {
  console.error('dist/ is missing, so tests of pages and of commands fail: npm run build makes it')
}
console.error(`left out: ${FURTHER_SUITES.join(', ')}; npm run test:all runs them too`)

/** `npm test`: everything that a client, an operator or a program can see, on SQLite, in the process of the tests. */
export default defineConfig({
  resolve: { alias: TIMERS_ALIAS },
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/open-files.ts'],
    exclude: ['**/node_modules/**', ...LEFT_OUT.map(folder => `test/${folder}/**`)],
    env: existsSync(IN_MEMORY) && freeBytesIn(IN_MEMORY) > 2e9 ? { TMPDIR: IN_MEMORY } : {},
    // Loading the modules again for each file would take three quarters of the time.
    isolate: false,
    // Processes rather than threads, because commands change the folder of their process.
    pool: 'forks',
    // Many tests wait for timers and the disk more than they compute.
    maxWorkers: availableParallelism() + 1,
    // Ends only what hangs: no test asserts a time, and on a busy machine all take theirs.
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
})

function freeBytesIn(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}
