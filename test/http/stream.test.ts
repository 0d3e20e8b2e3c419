import { once } from 'node:events'
import { get } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { expect, onTestFinished, test, vi } from 'vitest'
import { sendStream } from '../../src/http/stream.ts'

test('a stream is not begun for a client that is gone', async () => {
  const write = vi.fn(async () => {})
  const app = express()
  const sent = new Promise<void>(resolve => {
    app.get('/', async (request, response) => {
      await once(response, 'close')
      await sendStream(request, response, { type: 'text/plain', write })
      resolve()
    })
  })
  const server = app.listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const request = get({ port: (server.address() as AddressInfo).port, agent: false })
  request.on('error', () => {})
  await once(server, 'request')
  request.destroy()
  await sent
  expect(write).not.toHaveBeenCalled()
})
