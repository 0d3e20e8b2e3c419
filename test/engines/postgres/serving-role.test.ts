import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createPostgresDatabaseTasks } from '../../../src/storage/postgres/maintenance/postgres-database-tasks.ts'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import { queryPostgres, withPostgres } from '../../support/postgres-client.ts'
import { asServingRole } from '../../support/postgres-connections.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'

const CHECKPOINT = {
  source: 'users.csv',
  records: 2,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: { created: 2, updated: 0, unchanged: 0, skipped: 0, rejected: 0 },
  isFinished: true,
}

test('a role that may not change the schema can serve, import, ban, keep API keys and check once it is migrated', async () => {
  const url = await newPostgresDatabase()
  const location = locationOf(await asServingRole(url))
  await createPostgresDatabaseTasks(locationOf(url)).migrate()
  const storage = await createPostgresEngine(location).open({
    now: Date.now,
    steadyNow: Date.now,
    maxWaitingWrites: 100,
    ifMissing: 'create',
  })
  try {
    const { users, imports, bans, apiKeys } = storage
    const ann = { name: 'Ann', email: 'ann@example.com', passwordDigest: null }
    const claim = { keyHash: Buffer.alloc(32), fingerprint: 'f' }
    const { id } = await users.create(ann, claim)
    await users.update(id, { name: 'Anna' })
    await imports.write({
      users: [
        { name: 'Bea', email: 'bea@example.com' },
        { name: 'Cid', email: 'cid@example.com', id: 50_000 },
        { name: 'Anna', email: 'ann@example.com', passwordDigest: '$1' },
      ],
      onConflict: 'update',
      checkpointAfter: () => CHECKPOINT,
    })
    const trial = await storage.openTrialImports()
    const batch = { users: [ann], onConflict: 'fail', checkpointAfter: () => CHECKPOINT } as const
    expect((await trial.write(batch)).outcomes).toEqual(['email_taken'])
    await bans.save({ rule: 'login', clientKey: 'ann', endsAt: Date.now() + 1e6, lastsMs: 1e6 })
    expect(await bans.lift({})).toHaveLength(1)
    const key = {
      name: 'web',
      hash: Buffer.alloc(32),
      scopes: ['users:read'],
      createdAt: 0,
      expiresAt: undefined,
    } as const
    expect(await apiKeys.create(key)).toBe(true)
    await apiKeys.recordUses([{ hash: key.hash, usedAt: 1 }])
    expect(await apiKeys.list()).toEqual([{ ...key, lastUsedAt: 1 }])
    expect(await apiKeys.revoke('web')).toBe(true)
    expect(await apiKeys.revision()).toMatch(/^\d+$/)
    expect(await users.delete(id)).toBe(true)
  } finally {
    await storage.close()
  }
  const report = await createPostgresDatabaseTasks(location).check()
  expect(report).toMatchObject({ faults: [], pending: [] })
})

test('a role without rights on the table of users can use up no ids', async () => {
  const url = await newPostgresDatabase()
  await createPostgresDatabaseTasks(locationOf(url)).migrate()
  const role = `reader_${randomBytes(6).toString('hex')}`
  await queryPostgres(url, `CREATE ROLE ${role}`)
  onTestFinished(async () => {
    await queryPostgres(url, `DROP ROLE ${role}`)
  })
  const taken = withPostgres(url, async client => {
    await client.query(`SET SESSION AUTHORIZATION ${role}`)
    await client.query('SELECT take_user_ids(ARRAY[1000000])')
  })
  await expect(taken).rejects.toMatchObject({ code: '42501' })
})
