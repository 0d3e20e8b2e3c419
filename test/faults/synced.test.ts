import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createRandom } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { folderOf, recorderOrSkip } from './recorded-disk.ts'
import { createWriter } from './write-load.ts'

const DATABASE = join('data', 'users.db')

test('each write is synced before its response', async context => {
  const recorder = recorderOrSkip(context)
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd, env: recorder.environment(cwd) })
  const writer = createWriter({ label: 'lone', random: createRandom(), owners: new Map() })
  const times: { sentAt: bigint; answeredAt: bigint }[] = []
  for (let write = 0; write < 60; write++) {
    const sentAt = process.hrtime.bigint()
    await writer.write(service.port, 1)
    times.push({ sentAt, answeredAt: process.hrtime.bigint() })
  }
  const records = recorder.records().filter(({ path }) => path === `${DATABASE}-wal`)
  const unsynced = times.filter(({ sentAt, answeredAt }) => {
    const own = records.filter(({ endedAt }) => endedAt > sentAt && endedAt < answeredAt)
    const last = own.findLastIndex(({ kind }) => kind === 'write')
    return last < 0 || !own.slice(last).some(({ kind }) => kind === 'sync')
  })
  expect(unsynced).toEqual([])
})

test('the first start syncs each folder after it creates names in it', async context => {
  const recorder = recorderOrSkip(context)
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd, env: recorder.environment(cwd) })
  service.process.kill('SIGKILL')
  await service.exited
  const records = recorder.records()
  const made = records.filter(({ kind }) => kind === 'create' || kind === 'mkdir')
  expect(made.map(({ path }) => path)).toEqual(expect.arrayContaining(['data', DATABASE]))
  const unsynced = made.filter(name => {
    const later = records.slice(records.indexOf(name))
    return !later.some(({ kind, path }) => kind === 'sync' && path === folderOf(name.path))
  })
  expect(unsynced).toEqual([])
})

const WAYS = [
  { way: 'its path', env: { DATABASE_URL: DATABASE } },
  { way: 'a symbolic link', env: { DATABASE_URL: 'link.db' } },
]

test.for(WAYS)(
  'a start after kill -9 syncs an existing WAL before anything else, by $way',
  async (started, context) => {
    const recorder = recorderOrSkip(context)
    const cwd = temporaryFolder()
    symlinkSync(DATABASE, join(cwd, 'link.db'))
    const killed = await spawnService({ cwd })
    killed.process.kill('SIGKILL')
    await killed.exited
    const env = { ...recorder.environment(cwd), ...started.env }
    const service = await spawnService({ cwd, env })
    service.process.kill('SIGKILL')
    await service.exited
    expect(recorder.records()[0]).toMatchObject({ kind: 'sync', path: `${DATABASE}-wal` })
  },
)
