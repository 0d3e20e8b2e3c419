import pino from 'pino'
import { onTestFinished } from 'vitest'
import { createLimitsOfWorkers } from '../../src/limits/workers/limits-of-workers.ts'
import { createKeysOfWorkers } from '../../src/users/shared-keys-in-use.ts'
import { engine } from './engine.ts'
import { createFakeClock } from './fake-clock.ts'
import { connectGatedCalls, type GatedCalls } from './gated-calls.ts'
import { databaseIn } from './new-database.ts'
import { openTestApp, type TestApp, type TestAppOptions, temporaryFolder } from './open-test-app.ts'
import { openWriterHere } from './worker-storage.ts'

/** A worker in this process. */
export interface TestWorker extends TestApp {
  readonly process: GatedCalls['worker']
  /** The end of its calls in the first process. */
  readonly first: GatedCalls['first']
  /** Ends it as `kill -9` does, as far as the first process can tell. */
  kill(): void
}

export interface TestWorkers {
  readonly workers: readonly TestWorker[]
  readonly databaseUrl: string
  readonly clock: ReturnType<typeof createFakeClock>
  /** The lines that the first process has logged. */
  readonly firstLines: Record<string, unknown>[]
  /** One more worker, with the next number. */
  add(): Promise<TestWorker>
}

export interface TestWorkersOptions extends Pick<TestAppOptions, 'limits' | 'env'> {
  readonly count?: number
}

/**
 * Several services that share a database and a first process, all of them in this process. Behind a proxy, so that
 * X-Forwarded-For names the client.
 */
export async function openWorkers(options: TestWorkersOptions): Promise<TestWorkers> {
  const { limits = {}, env, count = 2 } = options
  // The time of the commands that the test runs too.
  const clock = createFakeClock(Date.now())
  const databaseUrl = await databaseIn(temporaryFolder())
  const writer = engine === 'sqlite' ? await openWriterHere(databaseUrl, clock.now) : undefined
  onTestFinished(() => writer?.close())
  const firstLines: Record<string, unknown>[] = []
  const log = pino(
    { level: 'trace', base: null },
    { write: line => firstLines.push(JSON.parse(line)) },
  )
  const ofWorkers = createLimitsOfWorkers({
    logOf: worker => log.child({ worker }),
    monotonicNow: clock.now,
  })
  const keysOfWorkers = createKeysOfWorkers()
  const workers: TestWorker[] = []

  async function add(): Promise<TestWorker> {
    const number = workers.length + 1
    const { worker, first, end } = connectGatedCalls()
    onTestFinished(end)
    writer?.answer(first.calls)
    ofWorkers.answer(first.calls, number)
    keysOfWorkers.answer(first.calls, number)
    const app = await openTestApp({
      limits,
      env: { TRUST_PROXY: '1', DATABASE_URL: databaseUrl, ...env },
      now: clock.now,
      firstProcess: worker.calls,
    })
    const opened: TestWorker = {
      ...app,
      process: worker,
      first,
      kill: () => {
        end()
        worker.calls.close(new Error('killed'))
        ofWorkers.remove(number)
        keysOfWorkers.remove(number)
      },
    }
    workers.push(opened)
    return opened
  }

  while (workers.length < count) await add()
  return { workers, databaseUrl, clock, firstLines, add }
}
