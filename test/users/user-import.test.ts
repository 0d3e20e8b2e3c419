import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { openRefusalFile } from '../../src/cli/refusal-file.ts'
import { loadConfig } from '../../src/config.ts'
import type { ImportRecord } from '../../src/users/import-batches.ts'
import type { ImportOptions } from '../../src/users/user-import.ts'
import { openUserTransfer } from '../../src/wiring/open-user-transfer.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

/** The importer, on a new database. */
async function openImporter() {
  const path = join(temporaryFolder(), 'users.db')
  const transfer = await openUserTransfer(loadConfig({ DATABASE_URL: path }), { purpose: 'import' })
  onTestFinished(() => transfer.close())
  return { path, importer: transfer.importer }
}

async function* recordsOf(...rows: unknown[]): AsyncGenerator<readonly ImportRecord[]> {
  yield rows.map((row, index) => ({ line: index + 1, raw: JSON.stringify(row), content: { row } }))
}

const ANN = { name: 'Ann', email: 'ann@example.com' }

function optionsOf(options: Partial<ImportOptions> = {}): ImportOptions {
  return {
    source: 'users.ndjson',
    records: recordsOf(ANN),
    onConflict: 'fail',
    resume: false,
    refusals: { write: bytes => bytes },
    onProgress: () => {},
    signal: new AbortController().signal,
    ...options,
  }
}

function lock(path: string): Database.Database {
  const other = new Database(path)
  other.exec('BEGIN IMMEDIATE')
  onTestFinished(() => {
    other.close()
  })
  return other
}

test('an import waits for a lock of another process', async () => {
  const { path, importer } = await openImporter()
  const other = lock(path)
  const importing = importer.run(optionsOf())
  setTimeout(() => other.exec('COMMIT'), 1500)
  expect(await importing).toMatchObject({ end: 'done', progress: { counts: { created: 1 } } })
})

test('an import that waits for a lock ends when it is told to', async () => {
  const { path, importer } = await openImporter()
  lock(path)
  const controller = new AbortController()
  const importing = importer.run(optionsOf({ signal: controller.signal }))
  setTimeout(() => controller.abort(), 100)
  expect(await importing).toMatchObject({ end: 'interrupted', progress: { records: 0 } })
})

test('an import that is begun anew forgets how far an earlier one came, before its first row', async () => {
  const { importer } = await openImporter()
  await importer.run(optionsOf())
  const controller = new AbortController()
  controller.abort()
  const again = optionsOf({ signal: controller.signal })
  expect(await importer.run(again)).toMatchObject({ end: 'interrupted' })
  const resumed = await importer.run(optionsOf({ resume: true, onConflict: 'skip' }))
  expect(resumed.progress).toMatchObject({ resumed: 0, counts: { created: 0, skipped: 1 } })
})

test('an import of no rows leaves no refusals of an earlier one', async () => {
  const { importer } = await openImporter()
  const path = join(temporaryFolder(), 'rejects.ndjson')
  writeFileSync(path, 'old')
  const refusals = openRefusalFile(path)
  await importer.run(optionsOf({ records: recordsOf(), refusals }))
  refusals.close()
  expect(readFileSync(path, 'utf8')).toBe('')
})

test('refusals that no transaction told of are written again, once', () => {
  const path = join(temporaryFolder(), 'rejects.ndjson')
  const refusals = openRefusalFile(path)
  const first = { line: 1, errors: { email: ['is invalid'] } }
  const second = { line: 2, errors: { name: ["can't be blank"] } }
  const bytes = refusals.write(0, [first])
  refusals.write(bytes, [second])
  appendFileSync(path, 'more that is left')
  const end = refusals.write(bytes, [second])
  expect(refusals.write(end, [])).toBe(end)
  refusals.close()
  expect(readFileSync(path, 'utf8')).toBe(`${JSON.stringify(first)}\n${JSON.stringify(second)}\n`)
})
