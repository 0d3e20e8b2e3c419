import { writeSync, write as writeTo } from 'node:fs'
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
 * A write for each line would cost as much as a read of a user, so lines wait for company up to this size. A thread does
 * it, and waking the event loop again costs too: chunks of 8 KB took a fifth more CPU of a read.
 */
const CHUNK_CHARS = 32_768

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
 * and an error other than EPIPE ends the process.
 */
export function createLineWriter(
  descriptor: number,
  { maxWaitingChars = MAX_WAITING_CHARS } = {},
): LineWriter {
  const chunks: string[] = []
  let waitingChars = 0
  /** What the system has not taken yet of the chunk that went first. */
  let rest = Buffer.alloc(0)
  let isWriting = false
  let isStalled = false
  let retryMs = FIRST_RETRY_MS
  let isReaderGone = false
  setInterval(send, FLUSH_INTERVAL_MS).unref()

  function write(line: string): void {
    if (isReaderGone || waitingChars + line.length > maxWaitingChars) return
    waitingChars += line.length
    const last = chunks.length - 1
    const open = chunks[last]
    if (open === undefined || open.length >= CHUNK_CHARS) chunks.push(line)
    else chunks[last] = open + line
    if (waitingChars >= CHUNK_CHARS) send()
  }

  function send(): void {
    if (isWriting || isStalled || !takeChunk()) return
    isWriting = true
    writeTo(descriptor, rest, (error, bytes) => {
      isWriting = false
      if (error !== null) {
        if (error.code === 'EPIPE') giveUp()
        else retryLater()
        return
      }
      retryMs = FIRST_RETRY_MS
      rest = rest.subarray(bytes)
      if (rest.length > 0 || waitingChars >= CHUNK_CHARS) send()
    })
  }

  /** EAGAIN of a full pipe and ENOSPC of a full disk may pass. */
  function retryLater(): void {
    isStalled = true
    setTimeout(() => {
      isStalled = false
      send()
    }, retryMs).unref()
    retryMs = Math.min(2 * retryMs, MAX_RETRY_MS)
  }

  /** Whether there is something to write. */
  function takeChunk(): boolean {
    if (rest.length > 0) return true
    const chunk = chunks.shift() ?? ''
    waitingChars -= chunk.length
    rest = Buffer.from(chunk)
    return rest.length > 0
  }

  function giveUp(): void {
    isReaderGone = true
    chunks.length = 0
    rest = rest.subarray(rest.length)
  }

  async function flush(): Promise<void> {
    const deadline = performance.now() + FLUSH_PATIENCE_MS
    while ((isWriting || takeChunk()) && performance.now() < deadline) {
      isStalled = false
      send()
      await sleep(FLUSH_POLL_MS)
    }
  }

  function flushNow(): void {
    // Otherwise a thread is about to write, and lines would change places.
    if (isWriting) return
    try {
      while (takeChunk()) rest = rest.subarray(writeSync(descriptor, rest))
    } catch {
      // The reader does not take it, and there is nobody to tell.
    }
  }

  return { write, flush, flushNow }
}
