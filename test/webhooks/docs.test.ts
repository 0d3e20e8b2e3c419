import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import express from 'express'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { hurryPolls } from '../support/global-timers.ts'
import { listen } from '../support/listen.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { firstBlock } from '../support/project.ts'
import { until } from '../support/until.ts'
import { addWebhook } from '../support/webhook-receiver.ts'

hurryPolls()

const PAGE = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')

/** The receiver of the page, with the users that it has. */
function receiverOfPage(secret: string): { app: RequestListener; users: Map<number, unknown> } {
  const code = firstBlock(PAGE, 'js')
    .replaceAll(/^import .*\n/gm, '')
    .replace('process.env.WEBHOOK_SECRET', 'secret')
    .replace('express()\n', 'const app = express()\n')
    .replace(/\n {2}\.listen\(4000\)/, '')
  return new Function('express', 'Webhook', 'secret', `${code}; return { app, users }`)(
    express,
    Webhook,
    secret,
  )
}

test('the receiver of docs/webhooks.md has the users, and refuses what is not signed', async () => {
  const app = await openTestApp()
  let listener: RequestListener = (_request, response) => response.writeHead(503).end()
  const port = await listen(createServer((request, response) => listener(request, response)))
  const url = `http://127.0.0.1:${port}/users`
  const receiver = receiverOfPage(await addWebhook(app.databaseUrl, 'search', url))
  listener = receiver.app
  const { body: ann } = await app.http.post('/users').send(newUserBody({ name: 'Ann' }))
  const { body: bea } = await app.http.post('/users').send(newUserBody({ name: 'Bea' }))
  await app.http.delete(`/users/${bea.id}`).expect(204)
  const { body: anna } = await app.http.put(`/users/${ann.id}`).send({ user: { name: 'Anna' } })
  const isThere = () => JSON.stringify([...receiver.users]) === JSON.stringify([[ann.id, anna]])
  await until(isThere)
  const forged = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' }
  expect((await fetch(url, forged)).status).toBe(400)
  expect(isThere()).toBe(true)
})
