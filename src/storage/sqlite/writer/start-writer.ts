import { Worker } from 'node:worker_threads'
import { ServiceError } from '../../../errors.ts'
import { createCalls } from '../../../workers/calls.ts'
import { createThreadPort } from '../../../workers/thread-port.ts'
import { connectWriter, type WriterConnection, type WriterOptions } from './connect-writer.ts'

/** A thread of the first process that writes for all workers. */
export interface Writer extends WriterConnection {
  /** Rejects if the thread ends before `close`. */
  readonly failed: Promise<never>
}

/** `.ts` in the sources, `.js` once built. */
const ENDING = import.meta.url.slice(-3)

/** Resolves once the database is open. Throws `UnusableDatabase`. */
export async function startWriter(options: WriterOptions): Promise<Writer> {
  const thread = new Worker(new URL(`./writer-thread${ENDING}`, import.meta.url))
  const calls = createCalls(createThreadPort(thread))
  let isClosing = false
  const failed = new Promise<never>((_resolve, reject) => {
    const fail = (cause: unknown) => {
      if (isClosing) return
      calls.close(new ServiceError('outcome_unknown', { cause }))
      reject(cause)
    }
    thread.on('error', fail)
    thread.on('exit', () => fail(new Error('the thread that writes has ended')))
  })
  failed.catch(() => {})
  try {
    const { answer, report, close } = await Promise.race([connectWriter(calls, options), failed])
    return {
      answer,
      report,
      failed,
      close: async () => {
        await close()
        isClosing = true
        await thread.terminate()
        calls.close(new ServiceError('shutting_down'))
      },
    }
  } catch (error) {
    isClosing = true
    await thread.terminate()
    throw error
  }
}
