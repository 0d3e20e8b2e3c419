import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import express from 'express'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { createUserRecords } from '../../src/library.ts'
import { newUserBody } from '../support/builders.ts'
import { listen } from '../support/listen.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { installPackages } from '../support/packed-package.ts'
import { until } from '../support/until.ts'

test('an event of GET /users/changes passes a parent with compression at once', async () => {
  const cwd = temporaryFolder()
  await installPackages(cwd, 'compression@1.8')
  const compression = createRequire(join(cwd, 'index.js'))('compression')
  const records = await createUserRecords({ DATABASE_URL: ':memory:' })
  onTestFinished(() => records.close())
  const server = createServer(express().use(compression(), records.app))
  const port = await listen(server)
  const http = supertest(server)
  // What else it compresses shows that it works.
  for (let count = 0; count < 20; count++) await http.post('/users').send(newUserBody()).expect(201)
  const list = await http.get('/users').set('Accept-Encoding', 'gzip')
  expect(list.headers['content-encoding']).toBe('gzip')

  const { next } = (await http.get('/users/changes')).body
  const headers = { Accept: 'text/event-stream', 'Accept-Encoding': 'gzip' }
  const request = get({ port, path: `/users/changes?after=${next}`, headers, agent: false })
  onTestFinished(() => void request.destroy())
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  expect(response.headers).not.toHaveProperty('content-encoding')
  let text = ''
  response.setEncoding('utf8').on('data', part => {
    text += part
  })
  await http.post('/users').send(newUserBody()).expect(201)
  await until(() => /event: user\ndata: \{"id":21,/.test(text))
})
