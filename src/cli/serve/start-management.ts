import type { Config } from '../../config.ts'
import { OperatorError, ServiceError } from '../../errors.ts'
import type { FlushableLogger } from '../../ops/logger.ts'
import { handleOperations } from '../../ops/management/asked-operations.ts'
import type { Operations } from '../../ops/management/operations.ts'
import { startThread } from '../../workers/start-thread.ts'
import { CLOSE, LINE, OPEN } from './management-calls.ts'
import type { ManagementPort } from './open-management-port.ts'

export interface ManagementThreadOptions {
  readonly config: Config
  readonly logger: Pick<FlushableLogger, 'addLines'>
}

/** A thread that can open the management port. */
export interface ManagementThread {
  /** Throws `OperatorError` as `openManagementPort` does. If the thread crashes later, that is an uncaught exception. */
  open(operations: Operations): Promise<ManagementPort>
  /** Ends the thread. Not needed once the port is closed. */
  end(): Promise<void>
}

/**
 * Starts a thread for the management port: in the thread of the public port, each of its requests would make all code that both
 * use a little slower for good. It loads its modules while this thread opens the service.
 */
export function startManagement({ config, logger }: ManagementThreadOptions): ManagementThread {
  let isOpen = false
  const thread = startThread({
    module: new URL('./management-thread', import.meta.url),
    name: 'the thread of the management port',
    onFailure: error => {
      thread.calls.close(error)
      if (isOpen) throw error
    },
  })
  const { calls } = thread
  calls.handle(LINE, line => logger.addLines(Buffer.from(line)))

  async function end(): Promise<void> {
    calls.close(new ServiceError('shutting_down'))
    await thread.end()
  }

  return {
    open: async operations => {
      handleOperations(calls, operations)
      const opened = await calls.ask(OPEN, config)
      if ('problems' in opened) throw new OperatorError(opened.problems)
      isOpen = true
      return {
        address: opened.address,
        close: async () => {
          await calls.ask(CLOSE, null)
          await end()
        },
      }
    },
    end,
  }
}
