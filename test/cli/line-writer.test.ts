import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createLineWriter, type LineWriter } from '../../src/cli/line-writer.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { openPipe } from '../support/pipe.ts'

const MAX_WAITING_CHARS = 1_000_000

/** What a pipe of the system holds, and the chunk that is on its way. */
const MAX_BESIDE_CHARS = 100_000

function openWritable(path: string): number {
  const file = openSync(path, 'a')
  onTestFinished(() => closeSync(file))
  return file
}

/** As the process's own standard output is where it is a pipe. */
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

test('LineWriter writes all lines in order, those of before a flush too', async () => {
  const path = join(temporaryFolder(), 'log')
  const writer = createLineWriter(openWritable(path))
  const lines = writeLines(writer, 10_000)
  await writer.flush()
  lines.push(...writeLines(writer, 10))
  writer.flushNow()
  expect(readFileSync(path, 'utf8')).toBe(lines.join(''))
})

test('LineWriter.flush ends where the file takes nothing, and flushNow too', async () => {
  const writer = createLineWriter(openWritable('/dev/full'))
  writeLines(writer, 10_000)
  await writer.flush()
  writer.flushNow()
})

test('LineWriter keeps what a stalled reader does not take up to a bound, and drops whole lines past that', async () => {
  const { pipe, writer } = openWriterToPipe()
  const lines = writeLines(writer, 2000, 1000)
  await writer.flush()
  let text = ''
  const read = setInterval(() => {
    text += pipe.readNow()
  }, 1)
  await vi.waitUntil(() => text.length > MAX_WAITING_CHARS - 1000, { timeout: 20_000 })
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

test('LineWriter gives up once its reader is gone', async () => {
  const { pipe, writer } = openWriterToPipe()
  pipe.closeReader()
  writeLines(writer, 10_000)
  await writer.flush()
  writeLines(writer, 10_000)
  await writer.flush()
  writer.flushNow()
})
