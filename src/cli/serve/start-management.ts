import { Worker } from 'node:worker_threads'
import type { Config } from '../../config.ts'
import { OperatorError, ServiceError } from '../../errors.ts'
import type { FlushableLogger } from '../../ops/logger.ts'
import { handleOperations } from '../../ops/management/asked-operations.ts'
import type { Operations } from '../../ops/management/operations.ts'
import { createCalls } from '../../workers/calls.ts'
import { createThreadPort } from '../../workers/thread-port.ts'
import { CLOSE, LINE, OPEN } from './management-calls.ts'
import type { ManagementPort } from './open-management-port.ts'

export interface ManagementThreadOptions {
  readonly config: Config
  readonly logger: Pick<FlushableLogger, 'addLines'>
  readonly operations: Operations
}

/** `.ts` in the sources, `.js` once built. */
const ENDING = import.meta.url.slice(-3)

/**
 * Opens the management port on a thread of its own: in the thread of the public port, each of its requests would make all code
 * that both use a little slower for good. Throws `OperatorError` as `openManagementPort` does. If the thread crashes later, that is
 * an uncaught exception.
 */
export async function startManagement({
  config,
  logger,
  operations,
}: ManagementThreadOptions): Promise<ManagementPort> {
  const thread = new Worker(new URL(`./management-thread${ENDING}`, import.meta.url))
  const calls = createCalls(createThreadPort(thread))
  handleOperations(calls, operations)
  calls.handle(LINE, line => logger.addLines(Buffer.from(line)))

  let isOpen = false
  const fail = (error: unknown) => {
    if (calls.isClosed()) return
    calls.close(error)
    if (isOpen) throw error
  }
  thread.on('error', fail)
  thread.on('exit', () => fail(new Error('the thread of the management port has ended')))

  async function end(): Promise<void> {
    calls.close(new ServiceError('shutting_down'))
    await thread.terminate()
  }

  try {
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
  } catch (error) {
    await end()
    throw error
  }
}
