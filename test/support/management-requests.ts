import supertest from 'supertest'
import { openTestApp, type TestApp, type TestAppOptions } from './open-test-app.ts'

/** A token for tests. */
export const TOKEN = 'operators-token-of-the-tests'

export interface ManagedApp extends TestApp {
  /** A supertest agent on the management port. */
  readonly ops: ReturnType<typeof supertest>
  readonly managementPort: number
}

/** The real service with a management port. */
export async function openManagedApp(options: TestAppOptions = {}): Promise<ManagedApp> {
  const app = await openTestApp({ ...options, env: { MANAGEMENT_PORT: '0', ...options.env } })
  const managementPort = Number(new URL(app.managementUrl).port)
  return { ...app, managementPort, ops: supertest(app.managementUrl) }
}
