import { appendFileSync } from 'node:fs'
import { inject, TestRunner } from 'vitest'

/** How the services of a project run, if they do not run inside the test process. */
export interface SpawnedRun {
  /** The built program, whose clocks tests can set. */
  readonly main: string
  /** Settings of each service, such as `WORKERS`. */
  readonly env: Readonly<Record<string, string>>
  /** Where the reason of each skipped test is written. */
  readonly skipsPath: string
  /** Where the id of each process is written that outlives its test. */
  readonly processesPath: string
}

declare module 'vitest' {
  interface ProvidedContext {
    /** What `vitest.config.ts` says about the project. */
    spawnedEnv: SpawnedRun['env']
    spawned: SpawnedRun
  }
}

/** `undefined` in a run whose services run inside the test process. */
export const spawnedRun: SpawnedRun | undefined = inject('spawned')

/** Skips the current test if its service runs in processes of its own. The end of the run has the sum of the reasons. */
export function skipIfSpawned(reason: string): void {
  if (spawnedRun === undefined) return
  appendFileSync(spawnedRun.skipsPath, `${reason}\n`)
  const test = TestRunner.getCurrentTest()
  if (test === undefined) throw new Error(`skipped outside of a test: ${reason}`)
  test.context.skip(reason)
}

/** A reason for `skipIfSpawned`. */
export const IN_PROCESS = 'the test listens to notices, which do not leave a process'
