import { join } from 'node:path'
import { expect, test } from 'vitest'
import { migrationStatus } from '../../src/storage/sqlite/open-sqlite.ts'
import { newUserBody } from '../support/builders.ts'
import { createUser } from '../support/fill-users.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'

test.each([2, 4])('%i services that start at once on a new database all succeed', async count => {
  const cwd = temporaryFolder()
  const env = { DATABASE_URL: 'file:data/users.db' }
  const services = await Promise.all(
    Array.from({ length: count }, () => spawnService({ cwd, env })),
  )
  const created = await Promise.all(services.map(({ url }) => createUser(url)))
  expect(created.map(({ status }) => status)).toEqual(services.map(() => 201))
  const lists = await Promise.all(
    services.map(async ({ url }) => (await fetch(`${url}/users`)).text()),
  )
  expect(new Set(lists).size).toBe(1)
  expect(JSON.parse(lists[0] ?? '')).toHaveLength(count)
  const status = await migrationStatus(join(cwd, 'data', 'users.db'))
  expect(status.every(({ appliedAt }) => appliedAt !== undefined)).toBe(true)
})

test('a create that was committed before a kill -9 is answered when it is repeated', async () => {
  const cwd = temporaryFolder()
  // Kills the process before it sends the answer: the commit is done, and the client got nothing.
  const killer = `data:text/javascript,${encodeURIComponent(`
    import { ServerResponse } from 'node:http'
    const { writeHead } = ServerResponse.prototype
    ServerResponse.prototype.writeHead = function (status, ...rest) {
      if (status === 201) process.kill(process.pid, 'SIGKILL')
      return writeHead.call(this, status, ...rest)
    }`)}`
  const key = 'key-5f6d9a'
  const options = {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
    body: JSON.stringify(newUserBody({ password: 'correct horse' })),
  }
  const doomed = await spawnService({ cwd, env: { NODE_OPTIONS: `--import=${killer}` } })
  await expect(fetch(`${doomed.url}/users`, options)).rejects.toThrow()
  // With several processes, only one of them was killed.
  doomed.process.kill('SIGKILL')
  expect((await doomed.exited).code).toBeNull()

  const restarted = await spawnService({ cwd })
  const response = await fetch(`${restarted.url}/users`, options)
  expect(response.status).toBe(201)
  expect(response.headers.get('idempotency-replayed')).toBe('true')
  const users = await (await fetch(`${restarted.url}/users`)).json()
  expect(users).toEqual([await response.json()])
})
