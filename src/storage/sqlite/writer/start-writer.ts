import { ServiceError } from '../../../errors.ts'
import { startThread } from '../../../workers/start-thread.ts'
import { connectWriter, type WriterConnection, type WriterOptions } from './connect-writer.ts'

/** A thread of the first process that writes for all workers. */
export interface Writer extends WriterConnection {
  /** Rejects if the thread ends before `close`. */
  readonly failed: Promise<never>
}

/** Resolves once the database is open. Throws `UnusableDatabase`. */
export async function startWriter(options: WriterOptions): Promise<Writer> {
  let reject: (cause: unknown) => void
  const failed = new Promise<never>((_resolve, rejectFailed) => {
    reject = rejectFailed
  })
  failed.catch(() => {})
  const { calls, end } = startThread({
    module: new URL('./writer-thread', import.meta.url),
    name: 'the thread that writes',
    onFailure: cause => {
      calls.close(new ServiceError('outcome_unknown', { cause }))
      reject(cause)
    },
  })
  try {
    const { answer, report, close } = await Promise.race([connectWriter(calls, options), failed])
    return {
      answer,
      report,
      failed,
      close: async () => {
        await close()
        await end()
        calls.close(new ServiceError('shutting_down'))
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}
