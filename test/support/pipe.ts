import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from './open-test-app.ts'

/**
 * A pipe of the system, and `writeEnd`, which is to be closed here once a process has it. Nothing is read from it unless the test
 * calls a method for that. Unless `nonBlocking`, writes to it block, as with a pipe of a shell.
 */
export function openPipe({ nonBlocking = false } = {}) {
  const path = join(temporaryFolder(), 'pipe')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writeEnd = openSync(path, constants.O_WRONLY | (nonBlocking ? constants.O_NONBLOCK : 0))
  let isOpen = true
  /** Closes the reading end: further writes fail with EPIPE. */
  const closeReader = () => {
    if (isOpen) closeSync(reader)
    isOpen = false
  }
  onTestFinished(closeReader)

  /** Reads the content of the pipe, at most this many bytes. */
  function readNow(maxBytes = Number.POSITIVE_INFINITY): string {
    const chunks: Buffer[] = []
    let left = maxBytes
    try {
      while (left > 0) {
        const chunk = Buffer.alloc(Math.min(left, 65_536))
        const length = readSync(reader, chunk)
        if (length === 0) break
        left -= length
        chunks.push(chunk.subarray(0, length))
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
    return Buffer.concat(chunks).toString()
  }

  return { writeEnd, readNow, closeReader }
}
