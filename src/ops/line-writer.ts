import { fstatSync, writeSync, writev } from 'node:fs'
import { isatty } from 'node:tty'
import { performance, setInterval, setTimeout, sleep } from '../platform/timers.ts'

/**
 * Lines are collected up to this size, because a write per line would cost as much as reading a user. Files are
 * written by a thread, which then wakes the event loop: with chunks of 8 KB a read took a fifth more CPU.
 */
const CHUNK_CHARS = 32_768

/** The most chunks in one write. Many, because under load the next write waits for a whole turn of the event loop. */
const CHUNKS_A_WRITE = 64

const FLUSH_INTERVAL_MS = 100

/** The wait after the first failed write; it doubles with each further one, up to `MAX_RETRY_MS`. */
const FIRST_RETRY_MS = 1

const MAX_RETRY_MS = 50

/** The most that is buffered for a slow reader: about 16 MB, because lines are mostly ASCII. */
const MAX_WAITING_CHARS = 16 * 1024 * 1024

const FLUSH_TIMEOUT_MS = 1000

/** Short, because a pipe takes 64 KB at a time. */
const FLUSH_POLL_MS = 2

/**
 * Writes lines to a file descriptor in their order, and never waits for its reader, which may be slow or stalled. It drops lines
 * over `maxWaitingChars`, and all lines once the reader is gone.
 *
 * Not pino's own destination (sonic-boom). It retries a write to a full pipe only after a fixed 100 ms, and so dropped two
 * thirds of the lines before a reader that was fast enough. On a pipe that blocks, it takes three times the CPU of this one, and
 * a stalled reader keeps the process from ending.
 */
export function createLineWriter(descriptor: number, { maxWaitingChars = MAX_WAITING_CHARS } = {}) {
  const isNonBlocking = isPipe(descriptor)
  const isTerminal = isatty(descriptor)
  /** Bytes, because concatenated strings keep their parts, which take five times the memory. */
  const chunks: Buffer[] = []
  let waitingBytes = 0
  /** The chunk that is being filled. */
  let open = ''
  let isWriting = false
  let isStalled = false
  let retryMs = FIRST_RETRY_MS
  let isReaderGone = false
  setInterval(send, FLUSH_INTERVAL_MS).unref()

  /** Buffers a line, or drops it if the buffer is full. */
  function write(line: string): void {
    if (isReaderGone || waitingBytes + open.length + line.length > maxWaitingChars) return
    open += line
    if (open.length < CHUNK_CHARS) return
    closeChunk()
    send()
  }

  function closeChunk(): void {
    if (open === '') return
    const chunk = Buffer.from(open)
    open = ''
    chunks.push(chunk)
    waitingBytes += chunk.length
  }

  function isEmpty(): boolean {
    return chunks.length === 0 && open === ''
  }

  function send(): void {
    if (isWriting || isStalled || isEmpty()) return
    if (chunks.length === 0) closeChunk()
    if (!isNonBlocking) {
      sendByThread()
      return
    }
    try {
      writeChunks()
      retryMs = FIRST_RETRY_MS
    } catch (error) {
      handleError(error as NodeJS.ErrnoException)
    }
  }

  function writeChunks(): void {
    for (let chunk = chunks[0]; chunk !== undefined; chunk = chunks[0]) {
      dropWritten(writeSync(descriptor, chunk))
    }
  }

  function sendByThread(): void {
    isWriting = true
    writev(descriptor, chunks.slice(0, CHUNKS_A_WRITE), (error, bytes) => {
      isWriting = false
      if (error !== null) {
        handleError(error)
        return
      }
      retryMs = FIRST_RETRY_MS
      dropWritten(bytes)
      if (chunks.length > 0) send()
    })
  }

  function dropWritten(bytes: number): void {
    waitingBytes -= bytes
    let left = bytes
    for (let chunk = chunks[0]; chunk !== undefined && left > 0; chunk = chunks[0]) {
      if (chunk.length > left) chunks[0] = chunk.subarray(left)
      else chunks.shift()
      left -= chunk.length
    }
  }

  /** Retries until the reader of a pipe or the terminal is gone: EAGAIN of a full pipe and ENOSPC of a full disk may pass. */
  function handleError({ code }: NodeJS.ErrnoException): void {
    if (code === 'EPIPE' || (code === 'EIO' && isTerminal)) {
      isReaderGone = true
      chunks.length = 0
      open = ''
      return
    }
    isStalled = true
    setTimeout(() => {
      isStalled = false
      send()
    }, retryMs).unref()
    retryMs = Math.min(2 * retryMs, MAX_RETRY_MS)
  }

  /** Resolves once all lines are written, or after a second. */
  async function flush(): Promise<void> {
    const deadline = performance.now() + FLUSH_TIMEOUT_MS
    while ((isWriting || !isEmpty()) && performance.now() < deadline) {
      isStalled = false
      send()
      await sleep(FLUSH_POLL_MS)
    }
  }

  /** Writes what the system accepts immediately. For the exit of the process. */
  function flushNow(): void {
    // A thread is writing: another write could overtake it.
    if (isWriting) return
    try {
      closeChunk()
      writeChunks()
    } catch {
      // The reader accepts nothing, and there is nowhere left to report it.
    }
  }

  return { write, flush, flushNow }
}

/** Node makes pipes and sockets non-blocking if they are standard output: a write then accepts only what fits. */
function isPipe(descriptor: number): boolean {
  const stats = fstatSync(descriptor)
  return stats.isFIFO() || stats.isSocket()
}
