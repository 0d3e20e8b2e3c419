import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createLineWriter, type LineWriter } from '../../src/ops/line-writer.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { openPipe } from '../support/pipe.ts'
import { until } from '../support/until.ts'

const MAX_WAITING_CHARS = 1_000_000

/** The content of a full pipe, and the chunk that is being written. */
const MAX_BESIDE_CHARS = 100_000

function openWritable(path: string): number {
  const file = openSync(path, 'a')
  onTestFinished(() => closeSync(file))
  return file
}

/** Like standard output, if that is a pipe. */
function openWriterToPipe() {
  const pipe = openPipe({ nonBlocking: true })
  onTestFinished(() => closeSync(pipe.writeEnd))
  return { pipe, writer: createLineWriter(pipe.writeEnd, { maxWaitingChars: MAX_WAITING_CHARS }) }
}

function writeLines(writer: LineWriter, count: number, pad = 0): string[] {
  const lines = Array.from({ length: count }, (_, index) =>
    `${index}`.padEnd(pad, '.').concat('\n'),
  )
  for (const line of lines) writer.write(line)
  return lines
}

test('LineWriter writes all lines in order, also across a flush', async () => {
  const path = join(temporaryFolder(), 'log')
  const writer = createLineWriter(openWritable(path))
  const lines = writeLines(writer, 10_000)
  await writer.flush()
  lines.push(...writeLines(writer, 10))
  writer.flushNow()
  expect(readFileSync(path, 'utf8')).toBe(lines.join(''))
})

// Its writer goes on trying after the test, on the descriptor that a later file gets.
test('LineWriter flush and flushNow end if the file accepts nothing', async () => {
  const writer = createLineWriter(openWritable('/dev/full'))
  writeLines(writer, 10_000)
  await writer.flush()
  writer.flushNow()
})

test('LineWriter buffers up to a bound for a stalled reader, and then drops whole lines', async () => {
  const { pipe, writer } = openWriterToPipe()
  const lines = writeLines(writer, 2000, 1000)
  await writer.flush()
  let text = ''
  const read = setInterval(() => {
    text += pipe.readNow()
  }, 1)
  await until(() => text.length > MAX_WAITING_CHARS - 1000)
  await writer.flush()
  clearInterval(read)
  text += pipe.readNow()
  expect(text.length).toBeLessThan(MAX_WAITING_CHARS + MAX_BESIDE_CHARS)
  expect(lines.join('').startsWith(text)).toBe(true)
  expect(text.endsWith('\n')).toBe(true)
  writer.write('later\n')
  await writer.flush()
  expect(pipe.readNow()).toBe('later\n')
})

test('LineWriter drops all lines once its reader is gone', async () => {
  const { pipe, writer } = openWriterToPipe()
  pipe.closeReader()
  writeLines(writer, 10_000)
  await writer.flush()
  writeLines(writer, 10_000)
  await writer.flush()
  writer.flushNow()
})
