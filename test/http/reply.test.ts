import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Request, Response } from 'express'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { createReplySender, type Reply, writeReply } from '../../src/http/reply.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

/** A server that answers `/name` with the reply of this name, and 500 if it cannot be written. */
async function serve(replies: Record<string, Reply>) {
  const sendReply = createReplySender((_error, request, response) =>
    writeReply(request, response, { status: 500, body: '{}' }),
  )
  const server = createServer((message, response) => {
    const request = message as Request
    request.id = 'an-id'
    const reply = replies[message.url?.slice(1) ?? ''] as Reply
    sendReply(request, response as Response, reply)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
  })
  return supertest(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

test('an answer that cannot be written does not hold up the others', async () => {
  const http = await serve({
    bad: { status: 200, headers: { 'X-Bad': 'a\nb' }, body: '{}' },
    good: { status: 200, body: '{}' },
  })
  const answers = await Promise.all(['good', 'bad', 'good'].map(name => http.get(`/${name}`)))
  expect(answers.map(({ status }) => status)).toEqual([200, 500, 200])
})

test('a header of a reply replaces the fixed header of the same name', async () => {
  const http = await serve({
    page: { status: 200, headers: { 'Cache-Control': 'no-store', Accept: 'text/csv' }, body: '{}' },
  })
  const { headers } = await http.get('/page')
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    accept: 'text/csv',
    vary: 'Accept',
    'x-request-id': 'an-id',
    'content-length': '2',
  })
})

test('text beyond ASCII is as long as its bytes', async () => {
  const http = await serve({ page: { status: 200, body: '"ü€😀"' } })
  const { headers, body } = await http.get('/page')
  expect(body).toBe('ü€😀')
  expect(headers['content-length']).toBe('11')
})

test('pipelined requests are answered in their order, whichever is ready first', async () => {
  const { port } = await openTestApp()
  const body = '{"user":{"name":"Ann","email":"ann@example.com"}}'
  const head = 'Host: a\r\nContent-Type: application/json'
  const answers = await sendRaw(
    port,
    `POST /users HTTP/1.1\r\n${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}` +
      'GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n' +
      'GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  ).ended
  expect(answers.map(({ status }) => status)).toEqual([201, 404, 200])
})
