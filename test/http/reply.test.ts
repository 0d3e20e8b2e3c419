import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Request, Response } from 'express'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { createReplySender, type Reply, writeReply } from '../../src/http/reply.ts'

const REPLIES: Readonly<Record<string, Reply>> = {
  '/bad': { status: 200, headers: { 'X-Bad': 'a\nb' }, body: '{}' },
  '/good': { status: 200, body: '{}' },
}

test('an answer that cannot be written does not hold up the others', async () => {
  const sendReply = createReplySender((_error, request, response) =>
    writeReply(request, response, { status: 500, body: '{}' }),
  )
  const server = createServer((message, response) => {
    const request = Object.assign(message, { id: 'an-id' }) as Request
    sendReply(request, response as Response, REPLIES[request.url] as Reply)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const http = supertest(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const answers = await Promise.all(['/good', '/bad', '/good'].map(path => http.get(path)))
  expect(answers.map(({ status }) => status)).toEqual([200, 500, 200])
})
