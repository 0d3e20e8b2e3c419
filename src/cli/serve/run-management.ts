import { OperatorError } from '../../errors.ts'
import { createLog } from '../../ops/logger.ts'
import { askOperations } from '../../ops/management/asked-operations.ts'
import type { Calls } from '../../workers/calls.ts'
import { CLOSE, LINE, OPEN } from './management-calls.ts'
import { type ManagementPort, openManagementPort } from './open-management-port.ts'

/** Serves the management port as the thread that serves the public one, at the other end of `service`, tells it to. */
export function runManagement(service: Calls): void {
  let port: ManagementPort | undefined
  service.handle(OPEN, async config => {
    try {
      port = await openManagementPort({
        config,
        log: createLog(config, line => service.tell(LINE, line)),
        operations: askOperations(service),
      })
      if (port === undefined) throw new Error('the settings want no management port')
      return { address: port.address }
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error
      return { problems: error.problems }
    }
  })
  service.handle(CLOSE, () => port?.close())
}
