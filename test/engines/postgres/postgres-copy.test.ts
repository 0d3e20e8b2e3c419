import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  copiedContent,
  copyBetween,
  interruptCopy,
  makeCopySource,
  REFUSALS,
} from '../../support/copy-databases.ts'
import { execute } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { startPgBouncer } from '../../support/pgbouncer.ts'
import { openStorage, tasksOn } from '../../support/postgres-connections.ts'
import { newPostgresDatabase, queryPostgres } from '../../support/postgres-databases.ts'
import { canUsePgBouncer } from '../../support/programs.ts'

async function makeSource(): Promise<string> {
  const path = join(temporaryFolder(), 'from.db')
  await makeCopySource(path)
  return path
}

/** All that `copy` copies, by way of a copy in SQLite. */
async function contentOf(from: string): Promise<ReturnType<typeof copiedContent>> {
  const to = join(temporaryFolder(), 'content.db')
  await copyBetween({ from, to })
  return copiedContent(to)
}

test('an unfinished copy is not migrated', async () => {
  const at = { from: await makeSource(), to: await newPostgresDatabase() }
  expect(await interruptCopy(at, 4)).toBe(true)
  await expect(tasksOn(at.to).migrate()).rejects.toThrow(REFUSALS.unfinished)
})

test.skipIf(!canUsePgBouncer)('goes through PgBouncer in transaction pooling mode', async () => {
  const from = await makeSource()
  const to = await startPgBouncer(await newPostgresDatabase())
  await copyBetween({ from, to })
  expect(await contentOf(to)).toEqual(copiedContent(from))
})

test('between two databases of PostgreSQL, the source needs no right to write, the target no right to change the schema', async () => {
  const path = await makeSource()
  const [from, to] = [await newPostgresDatabase(), await newPostgresDatabase()]
  await copyBetween({ from: path, to: from })
  await (await openStorage(to)).close()
  const role = `copier_${new URL(from).pathname.slice(1)}`
  const inRole = (url: string) => {
    const changed = new URL(url)
    changed.searchParams.set('options', `-c role=${role}`)
    return changed.href
  }
  await queryPostgres(from, `CREATE ROLE ${role}`)
  onTestFinished(async () => {
    await queryPostgres(from, `DROP OWNED BY ${role}`)
    await queryPostgres(to, `DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })
  const grant = (rights: string) =>
    `GRANT ${rights} ON ALL TABLES IN SCHEMA public TO ${role};
     GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role}`
  await queryPostgres(from, grant('SELECT'))
  await queryPostgres(to, grant('SELECT, INSERT, UPDATE, DELETE'))
  const at = { from: inRole(from), to: inRole(to) }
  expect(await interruptCopy(at, 6)).toBe(true)
  await copyBetween(at)
  expect(await contentOf(to)).toEqual(copiedContent(path))
  expect((await tasksOn(to).check()).faults).toEqual([])
})

test('names what it cannot hold', async () => {
  const at = { from: await makeSource(), to: await newPostgresDatabase() }
  execute(at.from, `UPDATE idempotency_keys SET fingerprint = 'a' || char(0) WHERE user_id = 7`)
  await expect(copyBetween(at)).rejects.toThrow(
    /^it cannot hold one of the idempotency keys: .*0x00/,
  )
})
