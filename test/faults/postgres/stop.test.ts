import { expect, test } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import { startSilencingProxy } from '../../support/silencing-proxy.ts'
import { linesOf, spawnService } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'

/** A service that was told to stop while two lists wait on connections that are silent. */
async function stopWhileStorageHangs(SHUTDOWN_TIMEOUT: string) {
  const proxy = await startSilencingProxy(await copyPostgresTemplate())
  const service = await spawnService({
    cwd: temporaryFolder(),
    env: { DATABASE_URL: proxy.url, SHUTDOWN_TIMEOUT },
  })
  proxy.silence('silence', 2)
  for (const sort of ['id', 'name']) {
    void fetch(`${service.url}/users?q=silence&count=true&sort=${sort}`).catch(() => {})
  }
  await until(() => proxy.silenced() === 2)
  service.process.kill('SIGTERM')
  await until(() => service.stdout().includes('"stopping"'))
  return service
}

test('a stop while storage hangs ends with exit code 1 when its time has run out', async () => {
  const { exited } = await stopWhileStorageHangs('1s')
  const { code, stdout } = await exited
  expect(code).toBe(1)
  const [line] = linesOf(stdout).filter(({ msg }) => msg === 'stopped with unanswered requests')
  expect(line).toMatchObject({ reason: 'timeout' })
})

test('a second signal ends a stop at once, also while storage hangs', async () => {
  const service = await stopWhileStorageHangs('10 minutes')
  const repeat = setInterval(() => service.process.kill('SIGTERM'), 50)
  const { code, stdout } = await service.exited.finally(() => clearInterval(repeat))
  expect(code).toBe(1)
  const last = linesOf(stdout).at(-1)
  expect(last).toMatchObject({ msg: 'stopped with unanswered requests', reason: 'signal' })
})
