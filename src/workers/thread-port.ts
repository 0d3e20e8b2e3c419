import type { MessagePort, Worker } from 'node:worker_threads'
import type { Port } from './calls.ts'

/** The channel between two threads of one process. */
export function createThreadPort(thread: MessagePort | Worker): Port {
  return {
    send: message => thread.postMessage(message),
    onMessage: receive => void thread.on('message', receive),
  }
}
