import { MessageChannel } from 'node:worker_threads'
import {
  connectWriter,
  type WriterConnection,
} from '../../src/storage/sqlite/writer/connect-writer.ts'
import { openWorkerStorage } from '../../src/storage/sqlite/writer/open-worker-storage.ts'
import { runWriter } from '../../src/storage/sqlite/writer/run-writer.ts'
import { type Calls, createCalls, type Port } from '../../src/workers/calls.ts'
import { createThreadPort } from '../../src/workers/thread-port.ts'

/** Both ends of calls that carry JSON, as between two processes. `end` closes the channel for both. */
export function connectCalls() {
  const { port1, port2 } = new MessageChannel()
  const portOf = (port: typeof port1): Port => ({
    send: message => port.postMessage(JSON.stringify(message)),
    onMessage: receive => void port.on('message', text => receive(JSON.parse(text))),
  })
  return {
    worker: createCalls(portOf(port1)),
    first: createCalls(portOf(port2)),
    end: () => port1.close(),
  }
}

export interface WriterHarness extends WriterConnection {
  /** The calls of the first process to its writer. */
  readonly calls: Calls
}

/** A writer as in a thread of the first process, but in this one: Vitest cannot start a thread from the sources. */
export async function openWriterHere(
  path: string,
  now: () => number = Date.now,
): Promise<WriterHarness> {
  const { port1, port2 } = new MessageChannel()
  runWriter(createCalls(createThreadPort(port2)), { now, steadyNow: now })
  const calls = createCalls(createThreadPort(port1))
  const { answer, report, close } = await connectWriter(calls, { path, steadyNow: now })
  return {
    calls,
    answer,
    report,
    close: async () => {
      await close()
      port1.close()
    },
  }
}

export interface WorkerOptions {
  readonly path: string
  readonly writer: Pick<WriterConnection, 'answer'>
  readonly now?: () => number
  readonly maxWaitingWrites?: number
}

/** The storage of one of several workers. `lose` ends its channel to the first process. */
export async function openWorker(options: WorkerOptions) {
  const { path, writer, now = Date.now, maxWaitingWrites = 10_000 } = options
  const { worker, first, end } = connectCalls()
  writer.answer(first)
  const storage = await openWorkerStorage({
    path,
    firstProcess: worker,
    now,
    steadyNow: now,
    maxWaitingWrites,
  })
  return {
    ...storage,
    lose: () => {
      end()
      worker.close(new Error('the first process is gone'))
    },
    close: async () => {
      await storage.close()
      end()
    },
  }
}
