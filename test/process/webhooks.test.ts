import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { ask } from '../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { firstBlock } from '../support/packed-package.ts'
import { spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'
import { addWebhook, openReceiver, status } from '../support/webhook-receiver.ts'

const PAGE = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')

const hasPython = spawnSync('python3', ['--version']).status === 0

test.skipIf(!hasPython)(
  'the Python of docs/webhooks.md verifies a request, and no other',
  async () => {
    const app = await openTestApp()
    const { url, posted } = await openReceiver()
    const secret = await addWebhook(app.databaseUrl, 'search', url)
    await app.http.post('/users').send(newUserBody()).expect(201)
    const [request] = await until(() => posted.length > 0 && posted)
    const verify = (body: string | undefined) => {
      const input = JSON.stringify({ secret, headers: request?.headers, body })
      const program = `${firstBlock(PAGE, 'python')}
import json, sys
given = json.load(sys.stdin)
print(is_signed(given["secret"], given["headers"], given["body"].encode()))`
      return execFileSync('python3', ['-c', program], { input, encoding: 'utf8' }).trim()
    }
    expect([verify(request?.text), verify(`${request?.text} `)]).toEqual(['True', 'False'])
  },
)

test('a stop waits for the request that runs, and exits with 0', async () => {
  const cwd = temporaryFolder()
  const env = { DATABASE_URL: `${cwd}/users.db` }
  const service = await spawnService({ cwd, args: ['serve'], env })
  let answer = () => {}
  const receiver = await openReceiver((response, posted) => {
    answer = () => status(204)(response, posted)
  })
  await addWebhook(env.DATABASE_URL, 'search', receiver.url)
  await ask(service, 'POST /users', newUserBody())
  await until(() => receiver.posted.length === 1)
  const ending = service.end('SIGTERM')
  await until(() => service.stdout().includes('"stopping"'))
  answer()
  expect((await ending).code).toBe(0)
  const again = await spawnService({ cwd, args: ['serve'], env })
  receiver.answerWith(status(204))
  await ask(again, 'POST /users', newUserBody({ name: 'Bea' }))
  await until(() => receiver.posted.length === 2)
  expect(receiver.posted[1]?.body.data.map(({ user }) => user?.name)).toEqual(['Bea'])
  await again.end('SIGTERM')
})

test('after a kill in a request, its content comes again with the same id', async () => {
  const cwd = temporaryFolder()
  const env = { DATABASE_URL: `${cwd}/users.db` }
  const service = await spawnService({ cwd, args: ['serve'], env })
  const receiver = await openReceiver(() => {})
  await addWebhook(env.DATABASE_URL, 'search', receiver.url)
  await ask(service, 'POST /users', newUserBody())
  await until(() => receiver.posted.length === 1)
  await service.end('SIGKILL')
  receiver.answerWith(status(204))
  const again = await spawnService({ cwd, args: ['serve'], env })
  await until(() => receiver.posted.length === 2)
  const [first, second] = receiver.posted
  expect([second?.text, second?.headers['webhook-id']]).toEqual([
    first?.text,
    first?.headers['webhook-id'],
  ])
  await again.end('SIGTERM')
})
