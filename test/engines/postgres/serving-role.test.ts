import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { openTrialImports } from '../../../src/storage/sqlite/sqlite-user-import-store.ts'
import { createUser } from '../../support/create-user.ts'
import { importUsers } from '../../support/import-users.ts'
import { asServingRole, openStorage, tasksOn } from '../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  newPostgresDatabase,
  queryPostgres,
  withPostgres,
} from '../../support/postgres-databases.ts'

test('a role that may not change the schema can serve, import, ban, keep API keys and check once it is migrated', async () => {
  const owners = await newPostgresDatabase()
  const url = await asServingRole(owners)
  await tasksOn(owners).migrate()
  const { users, imports, bans, apiKeys, close } = await openStorage(url)
  const ann = { name: 'Ann', email: 'ann@example.com', passwordDigest: null }
  const { id } = await createUser(users, ann, { keyHash: Buffer.alloc(32), fingerprint: 'f' })
  await users.update(id, { name: 'Anna' })
  const imported = [
    { name: 'Cid', email: 'cid@example.com', id: 50_000 },
    { ...ann, name: 'Bea' },
  ]
  expect(await importUsers(imports, imported, 'update')).toEqual(['created', 'updated'])
  const trial = await openTrialImports(imports, Date.now)
  expect(await importUsers(trial.store, [ann])).toEqual(['email_taken'])
  trial.close()
  expect(await users.delete(id)).toBe(true)
  await bans.save({ rule: 'login', clientKey: 'ann', endsAt: Date.now() + 1e6, lastsMs: 1e6 })
  expect(await bans.lift({})).toHaveLength(1)
  const hash = Buffer.alloc(32)
  const key = { name: 'web', hash, scopes: ['users:read'], createdAt: 0 } as const
  expect(await apiKeys.create({ ...key, expiresAt: undefined })).toBe(true)
  await apiKeys.recordUses([{ hash, usedAt: 1 }])
  expect(await apiKeys.list()).toMatchObject([{ ...key, lastUsedAt: 1 }])
  expect(await apiKeys.revoke('web')).toBe(true)
  await close()
  const report = await tasksOn(url).check()
  expect(report).toMatchObject({ faults: [], pending: [] })
})

test('a role without rights on the table of users can use up no ids', async () => {
  const url = await copyPostgresTemplate()
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
