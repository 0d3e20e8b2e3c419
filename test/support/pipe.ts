import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { temporaryFolder } from './open-test-app.ts'

/** A pipe of the system, whose reader reads only when it is told to. */
export interface Pipe {
  /** To be given to a process, and closed here then. */
  readonly writeEnd: number
  /** What is in the pipe now, or so much of it. */
  readNow(maxBytes?: number): string
  /** Reads until it has seen a match. */
  readUntil(pattern: RegExp): Promise<RegExpExecArray>
  /** After that, writing to it is EPIPE. */
  closeReader(): void
}

/** Its writer finds it blocking, as a shell hands it on, unless `nonBlocking` says otherwise. */
export function openPipe({ nonBlocking = false } = {}): Pipe {
  const path = join(temporaryFolder(), 'pipe')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writeEnd = openSync(path, constants.O_WRONLY | (nonBlocking ? constants.O_NONBLOCK : 0))
  let isOpen = true
  const closeReader = () => {
    if (isOpen) closeSync(reader)
    isOpen = false
  }
  onTestFinished(closeReader)

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

  async function readUntil(pattern: RegExp): Promise<RegExpExecArray> {
    let text = ''
    return vi.waitUntil(
      () => {
        text += readNow()
        return pattern.exec(text)
      },
      { timeout: 20_000, interval: 10 },
    ) as Promise<RegExpExecArray>
  }

  return { writeEnd, readNow, readUntil, closeReader }
}
