import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { type Calls, createCalls, type Port } from '../../src/workers/calls.ts'

/** One end of calls, in a process that the test can stop. */
export interface GatedEnd {
  readonly calls: Calls
  /** The messages that have come so far, as JSON. */
  readonly received: readonly string[]
  /** From now on the process handles no message. */
  stop(): void
  /** Handles the messages that came meanwhile, and later ones. */
  goOn(): void
}

export interface GatedCalls {
  readonly worker: GatedEnd
  readonly first: GatedEnd
  /** Closes the channel, as when the worker is killed. */
  end(): void
}

/** Both ends of calls that carry JSON, as between a worker and the first process. */
export function connectGatedCalls(): GatedCalls {
  const { port1, port2 } = new MessageChannel()
  const first = createEnd(port2)
  return {
    worker: createEnd(port1),
    first,
    end: () => {
      port1.close()
      first.calls.close(new Error('the worker has ended'))
    },
  }
}

function createEnd(channel: MessagePort): GatedEnd {
  let isStopped = false
  let waiting: string[] = []
  const received: string[] = []
  let handle = (_text: string) => {}
  const port: Port = {
    send: message => channel.postMessage(JSON.stringify(message)),
    onMessage: receive => {
      handle = text => receive(JSON.parse(text))
      channel.on('message', (text: string) => {
        received.push(text)
        if (isStopped) waiting.push(text)
        else handle(text)
      })
    },
  }
  return {
    calls: createCalls(port),
    received,
    stop: () => {
      isStopped = true
    },
    goOn: () => {
      isStopped = false
      const missed = waiting
      waiting = []
      for (const text of missed) handle(text)
    },
  }
}
