import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { csvRecords } from '../../../src/cli/transfer/csv-records.ts'
import { openInputFile } from '../../../src/cli/transfer/input-file.ts'
import { OperatorError } from '../../../src/errors.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const terminal = { stdin: Readable.from([]) }

function fileWith(text: string): string {
  const file = join(temporaryFolder(), 'users.csv')
  writeFileSync(file, text)
  return file
}

test('openInputFile throws the reason of a signal, and what is cut off by it is not read as CSV', async () => {
  const controller = new AbortController()
  const file = fileWith(`name,email\n${`Ann,"${'x'.repeat(700_000)}"\n`.repeat(3)}`)
  const records = csvRecords(openInputFile(file, { terminal, signal: controller.signal }).chunks, {
    file,
  })
  await records.next()
  controller.abort()
  await expect(records.next()).rejects.toBe(controller.signal.reason)
})

test('openInputFile reads nothing after the signal', async () => {
  const signal = AbortSignal.abort()
  for (const file of ['-', fileWith('name,email\n')]) {
    const { chunks } = openInputFile(file, { terminal, signal })
    await expect(chunks[Symbol.asyncIterator]().next()).rejects.toBe(signal.reason)
  }
})

test('openInputFile tells its reader, and nobody else, that a file has gone', async () => {
  const file = fileWith('name,email\n')
  const { chunks } = openInputFile(file, { terminal, signal: new AbortController().signal })
  rmSync(file)
  await sleep(50)
  const reading = chunks[Symbol.asyncIterator]().next()
  await expect(reading).rejects.toThrow(OperatorError)
  await expect(reading).rejects.toMatchObject({ problems: [`${file} cannot be read (ENOENT)`] })
})
