import { afterAll, beforeAll } from 'vitest'
import { type AtEnd, openTestApp, type TestApp, type TestAppOptions } from './open-test-app.ts'

/**
 * One service for all tests of a file or of a `describe`, opened before the first of them. Call it where the tests are declared, and
 * use what it returns inside of them only. For tests that change nothing that the others see.
 */
export function shareTestApp(options: TestAppOptions = {}): TestApp {
  return share(atEnd => openTestApp(options, atEnd))
}

/** A server for all tests of a file or of a `describe`, which is removed after them. */
export function shareServer<T extends { remove(): void | Promise<void> }>(
  start: () => Promise<T>,
): T {
  return share(async atEnd => {
    const server = await start()
    atEnd(server.remove)
    return server
  })
}

export function share<T extends object>(open: (atEnd: AtEnd) => Promise<T>): T {
  let app: T | undefined
  let endAll = async () => {}
  beforeAll(async () => {
    const ends: (() => void | Promise<void>)[] = []
    endAll = async () => {
      for (const end of ends.reverse()) await end()
    }
    app = await open(end => ends.push(end))
  })
  afterAll(() => endAll())
  return new Proxy({} as T, {
    get: (_target, name) => {
      if (app === undefined) throw new Error('the service is only there inside of tests')
      return app[name as keyof T]
    },
  })
}
