import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { createGunzip } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { insertManyUsers } from '../support/many-users.ts'
import { openResponse } from '../support/open-response.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { canUseNginx } from '../support/programs.ts'
import { executeSql } from '../support/sql.ts'
import { startNginx } from '../support/start-nginx.ts'
import { until } from '../support/until.ts'

const MANY = 40_000

async function openProxied(settings: string) {
  const app = await openTestApp({ env: { TRUST_PROXY: '1' } })
  const port = await startNginx(
    own => `server {
      listen 127.0.0.1:${own};
      location / { proxy_pass http://127.0.0.1:${app.port}; ${settings} }
    }`,
  )
  /** The head of a response through the proxy. */
  const ask = (path: string, accept: string) =>
    openResponse(port, path, { Accept: accept, 'Accept-Encoding': 'gzip' })
  return { ...app, ask }
}

/** The body as it was before the proxy compressed it. */
function plain(response: IncomingMessage) {
  const isZipped = response.headers['content-encoding'] === 'gzip'
  return isZipped ? response.pipe(createGunzip()) : response
}

const ZIPPED = 'gzip on; gzip_proxied any; gzip_types *; gzip_min_length 1;'

describe.skipIf(!canUseNginx).each([
  ['as it comes', '', undefined],
  ['with gzip for everything', ZIPPED, 'gzip'],
  ['with HTTP/1.1', 'proxy_http_version 1.1; proxy_set_header Connection "";', undefined],
])('through nginx %s', (_, settings, coding) => {
  test('a change ends a wait, and arrives in a stream, at once', async () => {
    const { http, ask } = await openProxied(settings)
    await http.post('/users').send(newUserBody()).expect(201)
    const read = async () => (await http.get('/users/changes').expect(200)).body
    // On PostgreSQL not before the writes of other databases of the server have ended.
    await until(async () => (await read()).data.length === 1)
    const { next } = await read()
    const stream = await ask(`/users/changes?after=${next}`, 'text/event-stream')
    expect(stream.headers['content-encoding']).toBe(coding)
    let events = ''
    plain(stream).on('data', part => {
      events += part
    })
    await until(() => events.startsWith('retry: 1000\n'))
    const waiting = ask(`/users/changes?after=${next}&wait=60`, '*/*').then(plain).then(text)
    const { body: user } = await http.post('/users').send(newUserBody()).expect(201)
    expect(JSON.parse(await waiting).data).toMatchObject([{ id: user.id, user }])
    await until(() => events.includes(`data: ${JSON.stringify(user)}\n`))
  })

  test('a whole list is whole, and one that breaks off is not', async () => {
    const { http, ask, databaseUrl, stop } = await openProxied(settings)
    await executeSql(databaseUrl, insertManyUsers(MANY))
    const list = await ask('/users', 'application/x-ndjson')
    expect(list.headers['content-encoding']).toBe(coding)
    const direct = await http.get('/users?sort=-id&per_page=1').expect(200)
    const lines = (await text(plain(list))).split('\n')
    expect(lines.length).toBe(MANY + 1)
    expect(JSON.parse(lines[MANY - 1] ?? '')).toEqual(direct.body[0])
    const cut = await ask('/users', 'application/x-ndjson')
    const stopped = stop(0)
    await expect(text(cut)).rejects.toThrow('aborted')
    await stopped
  })
})
