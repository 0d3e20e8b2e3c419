import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { importUsers } from '../../support/import-users.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { openStorage } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'

const FIRST_ID = 3_000_000_000_001

const GUIDE = new URL('../../../docs/scaling.md', import.meta.url)

test('a cell as docs/scaling.md describes it gives out ids of its range, until an import has higher ones', async () => {
  const url = await copyPostgresTemplate()
  const [, statement = ''] =
    /```sql\n(ALTER SEQUENCE .*)\n```/.exec(readFileSync(GUIDE, 'utf8')) ?? []
  expect(statement).toContain(String(FIRST_ID))
  await queryPostgres(url, statement)
  const { users, imports } = await openStorage(url)
  const create = async (name: string) =>
    (await users.create({ name, email: `${name}@example.com`, passwordDigest: null })).id
  const importWith = (id: number) =>
    importUsers(imports, [{ name: 'Moved', email: `${id}@example.com`, id }])
  expect(await create('ann')).toBe(FIRST_ID)
  await importWith(1_000_000_000_001)
  const next = await create('bea')
  expect(next).toBeGreaterThan(FIRST_ID)
  expect(Math.floor(next / 1e12)).toBe(3)
  await importWith(4_000_000_000_001)
  expect(Math.floor((await create('cid')) / 1e12)).toBe(4)
})
