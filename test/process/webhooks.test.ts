import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { ask } from '../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { firstBlock, readProject } from '../support/project.ts'
import { spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'
import { addWebhook, openReceiver, status } from '../support/webhook-receiver.ts'

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
      const program = `${firstBlock(readProject('docs/webhooks.md'), 'python')}
import json, sys
given = json.load(sys.stdin)
print(is_signed(given["secret"], given["headers"], given["body"].encode()))`
      return execFileSync('python3', ['-c', program], { input, encoding: 'utf8' }).trim()
    }
    expect([verify(request?.text), verify(`${request?.text} `)]).toEqual(['True', 'False'])
  },
)

/** A service that sends the create of a user to a receiver, which has it and answers as given. */
async function openSending(answer: Parameters<typeof openReceiver>[0]) {
  const cwd = temporaryFolder()
  const service = await spawnService({ cwd })
  const receiver = await openReceiver(answer)
  await addWebhook(join(cwd, 'data', 'users.db'), 'search', receiver.url)
  await ask(service, 'POST /users', newUserBody())
  await until(() => receiver.posted.length === 1)
  return { service, receiver, again: () => spawnService({ cwd }) }
}

test('a stop waits for the request that runs, and exits with 0', async () => {
  let answer = () => {}
  const { service, receiver, again } = await openSending((response, posted) => {
    answer = () => status(204)(response, posted)
  })
  const ending = service.end('SIGTERM')
  await until(() => service.stdout().includes('"stopping"'))
  answer()
  expect((await ending).code).toBe(0)
  receiver.answerWith(status(204))
  const next = await again()
  await ask(next, 'POST /users', newUserBody({ name: 'Bea' }))
  await until(() => receiver.posted.length === 2)
  expect(receiver.posted[1]?.body.data.map(({ user }) => user?.name)).toEqual(['Bea'])
  await next.end('SIGTERM')
})

test('after a kill in a request, its content comes again with the same id', async () => {
  const { service, receiver, again } = await openSending(() => {})
  await service.end('SIGKILL')
  receiver.answerWith(status(204))
  const next = await again()
  await until(() => receiver.posted.length === 2)
  const [first, second] = receiver.posted
  expect([second?.text, second?.headers['webhook-id']]).toEqual([
    first?.text,
    first?.headers['webhook-id'],
  ])
  await next.end('SIGTERM')
})
