import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashSync as hashBcrypt } from '@node-rs/bcrypt'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import type { ImportRecord } from '../../src/users/transfer/import-batches.ts'
import type { RejectedRow } from '../../src/users/transfer/import-settlement.ts'
import {
  CONFLICT_POLICIES,
  type ConflictPolicy,
} from '../../src/users/transfer/user-import-store.ts'
import { openUserTransfer } from '../../src/wiring/open-user-transfer.ts'
import { createRandom, inForm, SEED } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

const FILES = inForm({ short: 10, long: 1000 })

const PASSWORD = 'correct horse'
const DIGESTS = [hashBcrypt(PASSWORD, 4), hashBcrypt('another horse', 4)]

type Row = Readonly<Record<string, unknown>>

/** Files with few ids and e-mails, so that rows conflict with users, and with each other, in every way. */
function createRows(random: () => number) {
  const oneOf = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const maybe = (share: number, fields: () => Row): Row => (random() < share ? fields() : {})
  const row = (): Row => ({
    name: oneOf(['Ann', 'Bea', 'Cid']),
    email: oneOf([
      'a@example.com',
      'A@example.com',
      'b@example.com',
      'c@example.com',
      'd@example.com',
    ]),
    ...maybe(0.5, () => ({ id: 1 + Math.floor(random() * 9) })),
    ...maybe(0.2, () => oneOf<Row>([{ password_digest: oneOf(DIGESTS) }, { password: null }])),
    ...maybe(0.1, () => ({ password: PASSWORD, password_digest: undefined })),
    ...maybe(0.05, () => ({ name: '' })),
  })
  return {
    rows: (max: number) => Array.from({ length: Math.floor(random() * (max + 1)) }, row),
    chance: (share: number) => random() < share,
  }
}

/** The results for records that come a few at a time. */
async function bringIn(
  path: string,
  rows: readonly Row[],
  { onConflict, isDryRun }: { onConflict: ConflictPolicy; isDryRun: boolean },
) {
  async function* records(): AsyncGenerator<readonly ImportRecord[]> {
    for (let at = 0; at < rows.length; at += 4) {
      yield rows.slice(at, at + 4).map((row, index) => ({
        line: at + index + 1,
        raw: JSON.stringify(row),
        content: { row: JSON.parse(JSON.stringify(row)) },
      }))
    }
  }
  const purpose = isDryRun ? 'dry run' : 'import'
  const transfer = await openUserTransfer(loadConfig({ DATABASE_URL: path }), { purpose })
  const rejected: RejectedRow[] = []
  try {
    const result = await transfer.importer.run({
      source: 'users.ndjson',
      records: records(),
      onConflict,
      start: 'restart',
      rejects: { write: bytes => bytes },
      onProgress: progress => rejected.push(...progress.rejected),
      signal: new AbortController().signal,
    })
    return { counts: result.progress.counts, firstConflict: result.firstConflict, rejected }
  } finally {
    await transfer.close()
  }
}

function usersIn(path: string): unknown[] {
  const database = new Database(path)
  const users = database.prepare('SELECT * FROM users ORDER BY id').all()
  database.close()
  return users
}

test(`a dry run predicts the import of ${FILES} random files (seed ${SEED})`, async () => {
  const random = createRandom()
  for (let file = 0; file < FILES; file++) {
    const { rows, chance } = createRows(random)
    const folder = temporaryFolder()
    const path = join(folder, 'users.db')
    await bringIn(path, rows(8), { onConflict: 'skip', isDryRun: false })
    const database = new Database(path)
    // Their ids are never used again.
    if (chance(0.5)) database.exec('DELETE FROM users WHERE id > 4')
    database.close()
    const some = rows(12)
    for (const onConflict of CONFLICT_POLICIES) {
      const context = `file ${file}, ${onConflict}: ${JSON.stringify(some)} into ${JSON.stringify(usersIn(path))}`
      const before = usersIn(path)
      const tried = await bringIn(path, some, { onConflict, isDryRun: true })
      expect(usersIn(path), context).toEqual(before)
      const copy = join(folder, `${onConflict}.db`)
      copyFileSync(path, copy)
      const done = await bringIn(copy, some, { onConflict, isDryRun: false })
      if (onConflict !== 'fail') {
        expect(tried, context).toEqual(done)
        continue
      }
      // The import ends at the first conflict. Without the rows in conflict it does what the dry run predicted for the rest.
      expect(tried.firstConflict, context).toEqual(done.firstConflict)
      const wrong = new Set(tried.rejected.map(({ line }) => line))
      const rest = some.filter((_, index) => !wrong.has(index + 1))
      const restCopy = join(folder, 'rest.db')
      copyFileSync(path, restCopy)
      const restDone = await bringIn(restCopy, rest, { onConflict, isDryRun: false })
      expect(restDone.firstConflict, context).toBeUndefined()
      expect({ ...restDone.counts, rejected: wrong.size }, context).toEqual(tried.counts)
    }
  }
})
