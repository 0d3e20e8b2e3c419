import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openRejectsFile } from '../../../src/cli/transfer/rejects-file.ts'
import { type Config, loadConfig } from '../../../src/config.ts'
import { ServiceError } from '../../../src/errors.ts'
import { createPasswordHasher } from '../../../src/users/passwords.ts'
import type { ImportRecord } from '../../../src/users/transfer/import-batches.ts'
import { createImportRules } from '../../../src/users/transfer/import-rules.ts'
import { NO_COUNTS } from '../../../src/users/transfer/import-settlement.ts'
import { createUserImporter, type ImportOptions } from '../../../src/users/transfer/user-import.ts'
import type {
  ImportCheckpoint,
  UserImportStore,
} from '../../../src/users/transfer/user-import-store.ts'
import { openStorageForCommand } from '../../../src/wiring/open-storage.ts'
import { openUserTransfer } from '../../../src/wiring/open-user-transfer.ts'
import { databaseIn } from '../../support/new-database.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { holdWrites } from '../../support/sql.ts'

async function configOfNewDatabase(): Promise<Config> {
  return loadConfig({ DATABASE_URL: await databaseIn(temporaryFolder()) })
}

/** The importer with a new database. */
async function openImporter() {
  const config = await configOfNewDatabase()
  const transfer = await openUserTransfer(config, { purpose: 'import' })
  onTestFinished(() => transfer.close())
  return { databaseUrl: config.database.url, importer: transfer.importer }
}

async function* recordsOf(...rows: unknown[]): AsyncGenerator<readonly ImportRecord[]> {
  yield rows.map((row, index) => ({ line: index + 1, raw: JSON.stringify(row), content: { row } }))
}

const ANN = { name: 'Ann', email: 'ann@example.com' }

/** The checkpoint of another import. */
const OTHERS: ImportCheckpoint = {
  source: 'others.ndjson',
  records: 1,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: NO_COUNTS,
  isFinished: true,
}

function optionsOf(options: Partial<ImportOptions> = {}): ImportOptions {
  return {
    source: 'users.ndjson',
    records: recordsOf(ANN),
    onConflict: 'fail',
    start: 'new',
    rejects: { write: bytes => bytes },
    onProgress: () => {},
    signal: new AbortController().signal,
    ...options,
  }
}

test('an import waits for a lock of another process', async () => {
  const { databaseUrl, importer } = await openImporter()
  const held = await holdWrites(databaseUrl)
  const importing = importer.run(optionsOf())
  setTimeout(() => void held.release(), 1500)
  expect(await importing).toMatchObject({ end: 'done', progress: { counts: { created: 1 } } })
})

test('an import that waits for a lock ends when it is aborted', async () => {
  const { databaseUrl, importer } = await openImporter()
  await holdWrites(databaseUrl)
  const controller = new AbortController()
  const importing = importer.run(optionsOf({ signal: controller.signal }))
  setTimeout(() => controller.abort(), 100)
  expect(await importing).toMatchObject({ end: 'interrupted', progress: { records: 0 } })
})

test('an import whose transaction is repeated counts only the last attempt', async () => {
  const config = await configOfNewDatabase()
  const storage = await openStorageForCommand(config, { ifMissing: 'create' })
  onTestFinished(() => storage.close())
  const store = storage.imports
  let attempts = 0
  /** Fails the first attempt to write users. Before the second, another client creates one of them. */
  const failingOnce: UserImportStore = {
    ...store,
    write: async batch => {
      if (batch.users.length === 0) return store.write(batch)
      attempts++
      if (attempts === 2) {
        const others = { ...batch, users: batch.users.slice(0, 1) }
        await store.write({ ...others, checkpointAfter: () => OTHERS })
      }
      const checkpointAfter: typeof batch.checkpointAfter = outcomes => {
        const checkpoint = batch.checkpointAfter(outcomes)
        if (attempts === 1) throw new ServiceError('storage_unavailable')
        return checkpoint
      }
      return store.write({ ...batch, checkpointAfter })
    },
  }
  const path = join(temporaryFolder(), 'rejects.ndjson')
  const rejects = openRejectsFile(path)
  const importer = createUserImporter({
    store: failingOnce,
    rules: createImportRules({ passwordMinChars: 8 }),
    passwords: createPasswordHasher(),
    endsAtConflict: true,
  })
  const bea = { name: 'Bea', email: 'bea@example.com' }
  const records = recordsOf(ANN, {}, bea)
  const result = await importer.run(optionsOf({ records, rejects, onConflict: 'skip' }))
  rejects.close()
  const counts = { created: 1, updated: 0, unchanged: 0, skipped: 1, rejected: 1 }
  expect(attempts).toBe(2)
  expect(result).toMatchObject({ end: 'done', progress: { records: 3, counts } })
  expect(await store.findCheckpoint('users.ndjson')).toMatchObject({ records: 3, counts })
  expect(readFileSync(path, 'utf8')).toMatch(/^\{"line":2,.+\}\n$/)
})

test('an import that starts again forgets the checkpoint of an earlier one before its first row', async () => {
  const { importer } = await openImporter()
  await importer.run(optionsOf())
  const controller = new AbortController()
  controller.abort()
  const again = optionsOf({ signal: controller.signal, start: 'restart' })
  expect(await importer.run(again)).toMatchObject({ end: 'interrupted' })
  const resumed = await importer.run(optionsOf({ start: 'resume', onConflict: 'skip' }))
  expect(resumed.progress).toMatchObject({ resumed: 0, counts: { created: 0, skipped: 1 } })
})

test('an import of no rows removes the rejected rows of an earlier one', async () => {
  const { importer } = await openImporter()
  const path = join(temporaryFolder(), 'rejects.ndjson')
  writeFileSync(path, 'old')
  const rejects = openRejectsFile(path)
  await importer.run(optionsOf({ records: recordsOf(), rejects }))
  rejects.close()
  expect(readFileSync(path, 'utf8')).toBe('')
})

test('rejected rows without a committed transaction are written again, once', () => {
  const path = join(temporaryFolder(), 'rejects.ndjson')
  const rejects = openRejectsFile(path)
  const first = { line: 1, errors: { email: ['is invalid'] } }
  const second = { line: 2, errors: { name: ["can't be blank"] } }
  const bytes = rejects.write(0, [first])
  rejects.write(bytes, [second])
  appendFileSync(path, 'more that is left')
  const end = rejects.write(bytes, [second])
  expect(rejects.write(end, [])).toBe(end)
  rejects.close()
  expect(readFileSync(path, 'utf8')).toBe(`${JSON.stringify(first)}\n${JSON.stringify(second)}\n`)
})
