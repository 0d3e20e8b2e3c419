import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'

/** Writes lines to a stream such as standard output, and never waits for the reader of a pipe, which may be slow, stalled or gone. */
export interface LineWriter {
  /** Buffers a line, or drops it if the buffer is full. */
  write(line: string): void
  /** Resolves once all lines are written, or after a second. */
  flush(): Promise<void>
  /** Writes what the system accepts immediately. For the exit of the process. */
  flushNow(): void
}

/** Lines are collected up to this size, because a write per line would cost as much as reading a user. */
const CHUNK_CHARS = 32_768

const FLUSH_INTERVAL_MS = 100

/** The most that is buffered for a slow reader: about 16 MB, because lines are mostly ASCII. */
const MAX_WAITING_CHARS = 16 * 1024 * 1024

const FLUSH_TIMEOUT_MS = 1000

/**
 * A writer that keeps lines in order. It drops lines over `maxWaitingChars`, and all lines once the reader is gone.
 *
 * Not pino's own destination (sonic-boom). It retries a write to a full pipe only after a fixed 100 ms, and so dropped two
 * thirds of the lines before a reader that was fast enough. Node's stream goes on as soon as the pipe takes more. To a file or a
 * terminal it writes at once, as `console.log` does.
 */
export function createLineWriter(
  stream: Writable,
  { maxWaitingChars = MAX_WAITING_CHARS } = {},
): LineWriter {
  /** The chunk that is being filled. */
  let open = ''
  let isReaderGone = false
  // Other errors may pass, such as that of a full disk.
  stream.on('error', ({ code }: NodeJS.ErrnoException) => {
    isReaderGone ||= code === 'EPIPE'
  })
  setInterval(send, FLUSH_INTERVAL_MS).unref()

  function write(line: string): void {
    if (stream.writableLength + open.length + line.length > maxWaitingChars) return
    open += line
    if (open.length >= CHUNK_CHARS) send()
  }

  function send(): void {
    // Bytes, because concatenated strings keep their parts, which take five times the memory.
    if (open !== '' && !isReaderGone) stream.write(Buffer.from(open))
    open = ''
  }

  async function flush(): Promise<void> {
    send()
    if (stream.writableLength === 0) return
    const written = new Promise(resolve => stream.write('', resolve))
    await Promise.race([written, sleep(FLUSH_TIMEOUT_MS)])
  }

  return { write, flush, flushNow: send }
}
