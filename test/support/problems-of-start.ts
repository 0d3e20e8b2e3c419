import type { OperatorError } from '../../src/errors.ts'
import { openTestApp, type TestAppOptions } from './open-test-app.ts'

/** The lines that tell an operator why the service does not start, in this process. None if it does. */
export function problemsOfStart(options: TestAppOptions): Promise<readonly string[]> {
  return openTestApp(options).then(
    () => [],
    (error: OperatorError) => error.problems,
  )
}
