import { fstatSync, writeSync, writev } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Lines on their way to a file descriptor, whose reader may be slow, stall or be gone: nobody waits for it. */
export interface LineWriter {
  /** Takes a line, or drops it where too much waits already. */
  write(line: string): void
  /** Ends once all is written, or when the reader has not taken it within a second. */
  flush(): Promise<void>
  /** Writes what can be written at once: the last chance, when the process exits. */
  flushNow(): void
}

/**
 * A write for each line would cost as much as a read of a user, so lines wait for company up to this size. A thread
 * writes to a file, and waking the event loop again costs too: chunks of 8 KB took a fifth more CPU of a read.
 */
const CHUNK_CHARS = 32_768

/** So many go out in one write, because under load the next one waits for a whole turn of the event loop. */
const CHUNKS_A_WRITE = 64

const FLUSH_INTERVAL_MS = 100

/** After the first refusal, twice as long after each further one: a pipe holds 64 KB, of which a reader makes room at any time. */
const FIRST_RETRY_MS = 1

const MAX_RETRY_MS = 50

/** What a slow reader did not take is kept in memory up to this: some 16 MB, because lines are mostly ASCII. */
const MAX_WAITING_CHARS = 16 * 1024 * 1024

const FLUSH_PATIENCE_MS = 1000

/** Often, because a pipe takes 64 KB at a time. */
const FLUSH_POLL_MS = 2

/**
 * Not pino's own destination: its last flush waits for ever where the reader stalls or the disk of the file is full,
 * an error other than EPIPE ends the process, and it writes at most 16 KB in a turn of the event loop.
 */
export function createLineWriter(
  descriptor: number,
  { maxWaitingChars = MAX_WAITING_CHARS } = {},
): LineWriter {
  const neverWaits = isPipe(descriptor)
  /** As bytes, because text that is put together keeps its parts, which take five times the room. */
  const chunks: Buffer[] = []
  let waitingBytes = 0
  let open = ''
  let isWriting = false
  let isStalled = false
  let retryMs = FIRST_RETRY_MS
  let isReaderGone = false
  setInterval(send, FLUSH_INTERVAL_MS).unref()

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
    if (neverWaits) sendNow()
    else sendByThread()
  }

  function sendNow(): void {
    try {
      writeChunks()
      retryMs = FIRST_RETRY_MS
    } catch (error) {
      failed(error as NodeJS.ErrnoException)
    }
  }

  function writeChunks(): void {
    for (let chunk = chunks[0]; chunk !== undefined; chunk = chunks[0]) {
      written(writeSync(descriptor, chunk))
    }
  }

  function sendByThread(): void {
    isWriting = true
    writev(descriptor, chunks.slice(0, CHUNKS_A_WRITE), (error, bytes) => {
      isWriting = false
      if (error !== null) {
        failed(error)
        return
      }
      retryMs = FIRST_RETRY_MS
      written(bytes)
      if (chunks.length > 0) send()
    })
  }

  /** Takes away what the system has taken. */
  function written(bytes: number): void {
    waitingBytes -= bytes
    let left = bytes
    for (let chunk = chunks[0]; chunk !== undefined && left > 0; chunk = chunks[0]) {
      if (chunk.length > left) chunks[0] = chunk.subarray(left)
      else chunks.shift()
      left -= chunk.length
    }
  }

  /** EAGAIN of a full pipe and ENOSPC of a full disk may pass. */
  function failed({ code }: NodeJS.ErrnoException): void {
    if (code === 'EPIPE') {
      giveUp()
      return
    }
    isStalled = true
    setTimeout(() => {
      isStalled = false
      send()
    }, retryMs).unref()
    retryMs = Math.min(2 * retryMs, MAX_RETRY_MS)
  }

  function giveUp(): void {
    isReaderGone = true
    chunks.length = 0
    open = ''
  }

  async function flush(): Promise<void> {
    const deadline = performance.now() + FLUSH_PATIENCE_MS
    while ((isWriting || !isEmpty()) && performance.now() < deadline) {
      isStalled = false
      send()
      await sleep(FLUSH_POLL_MS)
    }
  }

  function flushNow(): void {
    // Otherwise a thread is about to write, and lines would change places.
    if (isWriting) return
    try {
      closeChunk()
      writeChunks()
    } catch {
      // The reader does not take it, and there is nobody to tell.
    }
  }

  return { write, flush, flushNow }
}

/** What Node itself makes non-blocking where it is standard output, so that a write takes what there is room for. */
function isPipe(descriptor: number): boolean {
  const stats = fstatSync(descriptor)
  return stats.isFIFO() || stats.isSocket()
}
