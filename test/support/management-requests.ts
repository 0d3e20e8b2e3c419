import supertest from 'supertest'
import { onTestFinished } from 'vitest'
import { type AtEnd, openTestApp, type TestAppOptions } from './open-test-app.ts'
import { share } from './shared-app.ts'

/** A token for tests. */
export const TOKEN = 'operators-token-of-the-tests'

export const BEARER = { Authorization: `Bearer ${TOKEN}` }

export type ManagedApp = Awaited<ReturnType<typeof openManagedApp>>

/** The real service with a management port. */
export async function openManagedApp(
  { env, ...options }: TestAppOptions = {},
  atEnd: AtEnd = onTestFinished,
) {
  const app = await openTestApp({ ...options, env: { MANAGEMENT_PORT: '0', ...env } }, atEnd)
  return {
    ...app,
    /** A supertest agent on the management port. */
    ops: supertest(app.managementUrl),
    managementPort: Number(new URL(app.managementUrl).port),
  }
}

/** As `shareTestApp`, with a management port. */
export function shareManagedApp(options: TestAppOptions = {}): ManagedApp {
  return share(atEnd => openManagedApp(options, atEnd))
}
