import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { readWholeLines } from '../../src/ops/whole-lines.ts'

/** What is passed on of a stream that delivers these chunks and ends. */
async function partsOf(chunks: readonly (string | Buffer)[]): Promise<string[]> {
  const stream = new PassThrough()
  const parts: string[] = []
  readWholeLines(stream, lines => parts.push(lines.toString()))
  for (const chunk of chunks) {
    stream.write(chunk)
    // Otherwise the stream may join two chunks.
    await new Promise(setImmediate)
  }
  stream.end()
  await new Promise(resolve => stream.once('close', resolve))
  return parts
}

test('readWholeLines passes on complete lines, and keeps the rest until its end comes', async () => {
  expect(await partsOf(['one\ntwo\nth', 'r', 'ee\n', 'four\n'])).toEqual([
    'one\ntwo\n',
    'three\n',
    'four\n',
  ])
})

test('readWholeLines drops a last line without its end', async () => {
  expect(await partsOf(['one\n', '{"msg":"cut'])).toEqual(['one\n'])
})

test('readWholeLines keeps characters whole that two chunks share', async () => {
  const line = Buffer.from('Zoë\n')
  expect(await partsOf([line.subarray(0, 3), line.subarray(3)])).toEqual(['Zoë\n'])
})
