import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run, type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { expectRightCopies } from './followed-writes.ts'

test('followers of two services on one file have exactly its users, whatever is killed and imported', async () => {
  const options = { cwd: temporaryFolder(), keepsLog: false }
  const services: SpawnedService[] = [await spawnService(options), await spawnService(options)]
  const restarts = await expectRightCopies({
    urls: () => services.map(({ url }) => url),
    disturb: async round => {
      const [killed] = services.splice(round % 2, 1)
      await killed?.end('SIGKILL')
      const input = `{"name":"Imported","email":"i${round}@x.co"}\n{"name":"Again","email":"i0@x.co"}\n`
      const args = ['import', '-', '--format', 'ndjson', '--on-conflict', 'update']
      expect(await run({ cwd: options.cwd, args, input })).toMatchObject({ code: 0 })
      services.push(await spawnService(options))
    },
  })
  expect(restarts).toEqual([0, 0, 0, 0])
  for (const { process, exited } of services) {
    process.kill('SIGTERM')
    await exited
  }
  expect(await run({ cwd: options.cwd, args: ['check'] })).toMatchObject({ code: 0 })
})

test('after a restore, followers begin again and have exactly the users of the backup and of later writes', async () => {
  const cwd = temporaryFolder()
  const services: SpawnedService[] = [await spawnService({ cwd, keepsLog: false })]
  const backup = join(cwd, 'backup.db')
  const restarts = await expectRightCopies({
    urls: () => services.map(({ url }) => url),
    disturb: async round => {
      if (round === 0) {
        expect(await run({ cwd, args: ['backup', backup] })).toMatchObject({ code: 0 })
        return
      }
      if (round > 1) return
      const [service] = services
      await service?.end('SIGTERM')
      expect(await run({ cwd, args: ['restore', backup] })).toMatchObject({ code: 0 })
      services.splice(0, 1, await spawnService({ cwd, keepsLog: false }))
    },
  })
  expect(restarts.every(count => count >= 1)).toBe(true)
})
