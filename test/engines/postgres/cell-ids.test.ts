import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { createPostgresDatabaseTasks } from '../../../src/storage/postgres/maintenance/postgres-database-tasks.ts'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'

const FIRST_ID = 3_000_000_000_001

const SCALING = new URL('../../../docs/scaling.md', import.meta.url)

const CHECKPOINT = {
  source: 'users.csv',
  records: 1,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: { created: 1, updated: 0, unchanged: 0, skipped: 0, rejected: 0 },
  isFinished: true,
}

async function openCell() {
  const url = await newPostgresDatabase()
  await createPostgresDatabaseTasks(locationOf(url)).migrate()
  const [, statement = ''] =
    /```sql\n(ALTER SEQUENCE .*)\n```/.exec(readFileSync(SCALING, 'utf8')) ?? []
  expect(statement).toContain(String(FIRST_ID))
  await queryPostgres(url, statement)
  const storage = await createPostgresEngine(locationOf(url)).open({
    now: Date.now,
    steadyNow: Date.now,
    maxWaitingWrites: 100,
    ifMissing: 'create',
  })
  onTestFinished(() => storage.close())
  const create = async (name: string) => {
    const user = { name, email: `${name}@example.com`, passwordDigest: null }
    return (await storage.users.create(user)).id
  }
  const importWith = (id: number) =>
    storage.imports.write({
      users: [{ name: 'Moved', email: `${id}@example.com`, id }],
      onConflict: 'fail',
      checkpointAfter: () => CHECKPOINT,
    })
  return { create, importWith }
}

test('a cell as docs/scaling.md describes it gives out ids of its range, also after an import of lower ones', async () => {
  const { create, importWith } = await openCell()
  expect(await create('ann')).toBe(FIRST_ID)
  await importWith(1_000_000_000_001)
  const next = await create('bea')
  expect(next).toBeGreaterThan(FIRST_ID)
  expect(Math.floor(next / 1e12)).toBe(3)
})

test('an import of a higher id moves the sequence of a cell behind it', async () => {
  const { create, importWith } = await openCell()
  await importWith(4_000_000_000_001)
  expect(Math.floor((await create('ann')) / 1e12)).toBe(4)
})
