import { Worker } from 'node:worker_threads'
import { type Calls, createCalls } from './calls.ts'
import { createThreadPort } from './thread-port.ts'

export interface ThreadOptions {
  /** The module that it runs, without `.ts` or `.js`. */
  readonly module: URL
  /** What it does, for errors: "the thread that writes". */
  readonly name: string
  /** Called once if the thread crashes or exits before `end`. What it throws is an uncaught exception. */
  onFailure(cause: unknown): void
}

/** A thread of this process. */
export interface Thread {
  readonly calls: Calls
  /** Ends the thread at once, whatever it does. */
  end(): Promise<void>
}

/** `.ts` in the sources, `.js` once built. */
const ENDING = import.meta.url.slice(-3)

/** Starts a thread. Whoever starts it closes `calls` when it ends, with the error that its callers should get. */
export function startThread({ module, name, onFailure }: ThreadOptions): Thread {
  const thread = new Worker(new URL(`${module.href}${ENDING}`))
  let isOver = false
  const fail = (cause: unknown) => {
    if (isOver) return
    isOver = true
    onFailure(cause)
  }
  thread.on('error', fail)
  thread.on('exit', () => fail(new Error(`${name} has ended`)))
  return {
    calls: createCalls(createThreadPort(thread)),
    end: async () => {
      isOver = true
      await thread.terminate()
    },
  }
}
