import { closeSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { createLineWriter } from '../../src/ops/line-writer.ts'
import { openPipe } from '../support/pipe.ts'
import { until } from '../support/until.ts'

const MAX_WAITING_CHARS = 1_000_000

/** The content of a full pipe, and the chunk that is being written. */
const MAX_BESIDE_CHARS = 100_000

/** Like standard output, if that is a pipe. */
function openWriterToPipe() {
  const pipe = openPipe({ nonBlocking: true })
  onTestFinished(() => closeSync(pipe.writeEnd))
  return { pipe, writer: createLineWriter(pipe.writeEnd, { maxWaitingChars: MAX_WAITING_CHARS }) }
}

test('the log is buffered up to a bound for a stalled reader, in order, and then whole lines are dropped', async () => {
  const { pipe, writer } = openWriterToPipe()
  const lines = Array.from({ length: 2000 }, (_, index) =>
    `${index}`.padEnd(1000, '.').concat('\n'),
  )
  for (const line of lines) writer.write(line)
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
  writer.flushNow()
  expect(pipe.readNow()).toBe('later\n')
})

test('the log is dropped once its reader is gone', async () => {
  const { pipe, writer } = openWriterToPipe()
  pipe.closeReader()
  for (let count = 0; count < 20_000; count++) writer.write(`${count}\n`)
  await writer.flush()
  writer.write('later\n')
  writer.flushNow()
})
