import supertest from 'supertest'
import { openTestApp, type TestApp, type TestAppOptions } from './open-test-app.ts'
import { shareTestApp } from './shared-app.ts'

/** A token for tests. */
export const TOKEN = 'operators-token-of-the-tests'

export const BEARER = { Authorization: `Bearer ${TOKEN}` }

export interface ManagedApp extends TestApp {
  /** A supertest agent on the management port. */
  readonly ops: ReturnType<typeof supertest>
  readonly managementPort: number
}

/** The real service with a management port. */
export async function openManagedApp(options: TestAppOptions = {}): Promise<ManagedApp> {
  const app = await openTestApp(withManagementPort(options))
  return { ...app, ...managementOf(app) }
}

/** As `shareTestApp`, with a management port. */
export function shareManagedApp(options: TestAppOptions = {}): ManagedApp {
  const shared = shareTestApp(withManagementPort(options)) as ManagedApp
  return new Proxy(shared, {
    get: (app, name) =>
      name === 'ops' || name === 'managementPort'
        ? managementOf(app)[name]
        : app[name as keyof TestApp],
  })
}

function withManagementPort({ env, ...options }: TestAppOptions): TestAppOptions {
  return { ...options, env: { MANAGEMENT_PORT: '0', ...env } }
}

function managementOf({ managementUrl }: TestApp) {
  return { ops: supertest(managementUrl), managementPort: Number(new URL(managementUrl).port) }
}
