import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { beginPost } from '../../../support/begin-post.ts'
import { newUserBody } from '../../../support/builders.ts'
import { execute } from '../../../support/databases.ts'
import { ask } from '../../../support/json-requests.ts'
import { temporaryFolder } from '../../../support/open-test-app.ts'
import { run, type SpawnedService, spawnService } from '../../../support/spawn-service.ts'
import { until } from '../../../support/until.ts'

const WORKERS = '2'

/** Throws in the thread that writes, as a bug in it would, once the file `boom` is there. */
const BUG = `
  const { isMainThread } = require('node:worker_threads')
  if (!isMainThread) {
    const { existsSync } = require('node:fs')
    setInterval(() => {
      if (existsSync('boom')) throw new Error('boom')
    }, 5)
  }`

function logLines(service: SpawnedService): Record<string, unknown>[] {
  return service
    .stdout()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
}

test.each([
  { what: 'of another program', make: (path: string) => execute(path, 'CREATE TABLE other (id)') },
  { what: 'that is no database', make: (path: string) => writeFileSync(path, 'x'.repeat(5000)) },
  {
    what: 'with the schema of a newer release',
    make: (path: string) =>
      execute(
        path,
        `CREATE TABLE schema_migrations (version INTEGER, name TEXT, hash TEXT, applied_at TEXT);
         INSERT INTO schema_migrations VALUES (9999, 'future', 'x', 'x')`,
      ),
  },
])('a file $what is refused with the same line as by one process', async ({ make }) => {
  const cwd = temporaryFolder()
  make(join(cwd, 'users.db'))
  const env = { DATABASE_URL: 'users.db', PORT: '0' }
  const one = await run({ cwd, env })
  expect(one).toMatchObject({ code: 1, stderr: expect.stringMatching(/^DATABASE_URL .*\n$/) })
  const several = await run({ cwd, env: { ...env, WORKERS } })
  expect([several.code, several.stderr]).toEqual([one.code, one.stderr])
})

test('a start after kill -9 recommends `check` once, and not after a stop', async () => {
  const cwd = temporaryFolder()
  const warnings = (service: SpawnedService) =>
    logLines(service).filter(({ level }) => level === 'warn')
  const first = await spawnService({ cwd, env: { WORKERS } })
  expect(warnings(first)).toEqual([])
  expect((await ask(first, 'POST /users', newUserBody())).status).toBe(201)
  first.process.kill('SIGKILL')
  // Resolves once the workers are gone too, because they have the same standard error.
  await first.exited
  const second = await spawnService({ cwd, env: { WORKERS } })
  expect(warnings(second)).toMatchObject([
    { msg: 'database was not closed cleanly, run `check` to examine it', worker: 0 },
  ])
  second.process.kill('SIGTERM')
  expect(await second.exited).toMatchObject({ code: 0, stderr: '' })
  expect(warnings(await spawnService({ cwd, env: { WORKERS } }))).toEqual([])
})

test('the service ends with 1 if the thread that writes fails, and loses nothing acknowledged', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'bug.cjs'), BUG)
  const nodeArgs = ['--require', join(cwd, 'bug.cjs')]
  const service = await spawnService({ cwd, nodeArgs, env: { WORKERS } })
  const acknowledged: string[] = []
  const writing = Promise.all(
    Array.from({ length: 8 }, async () => {
      for (;;) {
        const answer = await ask(service, 'POST /users', newUserBody()).catch(() => undefined)
        if (answer?.status !== 201) return
        acknowledged.push(answer.body.email)
      }
    }),
  )
  await until(() => acknowledged.length > 20)
  writeFileSync(join(cwd, 'boom'), '')
  const { code } = await service.exited
  expect(code).toBe(1)
  await writing
  expect(logLines(service)).toContainEqual(
    expect.objectContaining({
      level: 'fatal',
      msg: 'the thread that writes has failed',
      err: expect.objectContaining({ message: 'boom' }),
    }),
  )
  const again = await spawnService({ cwd })
  for (const email of acknowledged) {
    expect((await ask(again, `GET /users?email=${email}`)).body).toMatchObject([{ email }])
  }
})

test('a failure of the thread that writes is logged while the service stops too', async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'bug.cjs'), BUG)
  const nodeArgs = ['--require', join(cwd, 'bug.cjs')]
  const service = await spawnService({ cwd, nodeArgs, env: { WORKERS } })
  const post = await beginPost(Number(new URL(service.url).port))
  post.ended.catch(() => {})
  service.process.kill('SIGTERM')
  await until(() => logLines(service).some(({ msg }) => msg === 'stopping'))
  writeFileSync(join(cwd, 'boom'), '')
  expect(await service.exited).toMatchObject({ code: 1, stderr: '' })
  expect(logLines(service)).toContainEqual(
    expect.objectContaining({ level: 'fatal', msg: 'the thread that writes has failed' }),
  )
})
