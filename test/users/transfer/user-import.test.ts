import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createRejectsSink } from '../../../src/cli/transfer/import.ts'
import { loadConfig } from '../../../src/config/settings.ts'
import { ServiceError } from '../../../src/errors.ts'
import { createPasswordHasher } from '../../../src/users/passwords/hasher.ts'
import { createImportRules, type ImportRecord } from '../../../src/users/transfer/import-rows.ts'
import { runImport } from '../../../src/users/transfer/user-import.ts'
import type { UserImportStore } from '../../../src/users/transfer/user-import-store.ts'
import { openUserImport } from '../../../src/wiring/open-import.ts'
import { openStorageForCommand } from '../../../src/wiring/open-storage.ts'
import { importUsers } from '../../support/import-users.ts'
import { databaseIn } from '../../support/new-database.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { holdWrites } from '../../support/sql.ts'

/** An importer with a new database. */
async function openImporter() {
  const databaseUrl = await databaseIn(temporaryFolder())
  const config = loadConfig({ DATABASE_URL: databaseUrl })
  const transfer = await openUserImport(config)
  onTestFinished(() => transfer.close())
  return { config, databaseUrl, run: transfer.run }
}

async function* recordsOf(...rows: unknown[]): AsyncGenerator<readonly ImportRecord[]> {
  yield rows.map((row, index) => ({ line: index + 1, raw: JSON.stringify(row), content: { row } }))
}

const ANN = { name: 'Ann', email: 'ann@example.com' }

type RunOptions = Parameters<Awaited<ReturnType<typeof openUserImport>>['run']>[0]

function optionsOf(options: Partial<RunOptions> = {}): RunOptions {
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

test('an import waits for a lock of another process, unless it is aborted', async () => {
  const { databaseUrl, run } = await openImporter()
  const held = await holdWrites(databaseUrl)
  const aborted = await run(optionsOf({ signal: AbortSignal.timeout(100) }))
  expect(aborted).toMatchObject({ end: 'interrupted', progress: { checkpoint: { records: 0 } } })
  const importing = run(optionsOf())
  setTimeout(() => void held.release(), 100)
  expect(await importing).toMatchObject({
    end: 'done',
    progress: { checkpoint: { counts: { created: 1 } } },
  })
})

test('an import whose transaction is repeated counts only the last attempt', async () => {
  const { config } = await openImporter()
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
      if (attempts === 2) await importUsers(store, batch.users.slice(0, 1))
      const checkpointAfter: typeof batch.checkpointAfter = outcomes => {
        const checkpoint = batch.checkpointAfter(outcomes)
        if (attempts === 1) throw new ServiceError('storage_unavailable')
        return checkpoint
      }
      return store.write({ ...batch, checkpointAfter })
    },
  }
  const path = join(temporaryFolder(), 'rejects.ndjson')
  const rejects = createRejectsSink(path)
  const records = recordsOf(ANN, {}, { name: 'Bea', email: 'bea@example.com' })
  const result = await runImport({
    ...optionsOf({ records, rejects, onConflict: 'skip' }),
    store: failingOnce,
    rules: createImportRules({ passwordMinChars: 8 }),
    passwords: createPasswordHasher(),
    endsAtConflict: true,
  })
  const counts = { created: 1, updated: 0, unchanged: 0, skipped: 1, rejected: 1 }
  expect(attempts).toBe(2)
  expect(result).toMatchObject({ end: 'done', progress: { checkpoint: { records: 3, counts } } })
  expect(await store.findCheckpoint('users.ndjson')).toMatchObject({ records: 3, counts })
  expect(readFileSync(path, 'utf8')).toMatch(/^\{"line":2,.+\}\n$/)
})

test('an import that starts again forgets the checkpoint of an earlier one before its first row', async () => {
  const { run } = await openImporter()
  await run(optionsOf())
  const again = optionsOf({ signal: AbortSignal.abort(), start: 'restart' })
  expect(await run(again)).toMatchObject({ end: 'interrupted' })
  const resumed = await run(optionsOf({ start: 'resume', onConflict: 'skip' }))
  const checkpoint = { counts: { created: 0, skipped: 1 } }
  expect(resumed.progress).toMatchObject({ resumed: 0, checkpoint })
})
