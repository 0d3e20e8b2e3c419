import { afterAll, beforeAll } from 'vitest'
import { openTestApp, type TestApp, type TestAppOptions } from './open-test-app.ts'

/**
 * One service for all tests of a file or of a `describe`, opened before the first of them. Call it where the tests are declared, and
 * use what it returns inside of them only. For tests that change nothing that the others see.
 */
export function shareTestApp(options: TestAppOptions = {}): TestApp {
  let app: TestApp | undefined
  let endAll = async () => {}
  beforeAll(async () => {
    const ends: (() => void | Promise<void>)[] = []
    endAll = async () => {
      for (const end of ends.reverse()) await end()
    }
    app = await openTestApp(options, end => ends.push(end))
  })
  afterAll(() => endAll())
  return new Proxy({} as TestApp, {
    get: (_target, name) => {
      if (app === undefined) throw new Error('the service is only there inside of tests')
      return app[name as keyof TestApp]
    },
  })
}
