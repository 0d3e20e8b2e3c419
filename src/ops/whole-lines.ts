import type { Readable } from 'node:stream'

const NEWLINE = 10

/** Passes on what a stream carries in parts that end with a whole line. A last line without its end is dropped. */
export function readWholeLines(stream: Readable, pass: (lines: Buffer) => void): void {
  let rest: Buffer[] = []
  stream.on('data', (chunk: Buffer) => {
    const end = chunk.lastIndexOf(NEWLINE) + 1
    if (end === 0) {
      rest.push(chunk)
      return
    }
    pass(Buffer.concat([...rest, chunk.subarray(0, end)]))
    rest = end < chunk.length ? [chunk.subarray(end)] : []
  })
}
