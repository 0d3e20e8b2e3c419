import { createServer } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bundleClient } from '../support/bundle-client.ts'
import { listen } from '../support/listen.ts'
import { openContext } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { canOpenPages } from '../support/programs.ts'

/** Another origin than that of the service, with an empty page and the client. */
async function openOtherOrigin(): Promise<string> {
  const { code } = await bundleClient()
  const server = createServer(({ url }, response) => {
    const isClient = url === '/client.js'
    response.setHeader('Content-Type', isClient ? 'text/javascript' : 'text/html')
    response.end(isClient ? code : '<!doctype html><title>Empty</title>')
  })
  return `http://127.0.0.1:${await listen(server)}`
}

describe.runIf(canOpenPages)('the client in a page of another origin', () => {
  test('creates, lists by pages, updates by version and follows', async () => {
    const origin = await openOtherOrigin()
    const { url } = await openTestApp({ env: { CORS_ORIGINS: origin } })
    const page = await (await openContext()).newPage()
    await page.goto(origin)
    const seen = await page.evaluate(`(async () => {
      const { createClient } = await import('/client.js')
      const users = createClient({ url: '${url}' })
      for (const name of ['Ann', 'Bea']) await users.create({ name, email: name + '@example.com' })
      const { total } = await users.page({ per_page: 1 })
      const names = []
      for await (const { name } of users.list({ per_page: 1 })) names.push(name)
      const ifMatch = await users.version(1)
      await users.update(1, { name: 'Anna' }, { ifMatch })
      const stale = await users.update(1, { name: 'Annie' }, { ifMatch }).catch(error => error)
      for await (const { data } of users.changes()) {
        const changed = data.map(({ user }) => user.name)
        return { total, names, stale: [stale.reason, stale.requestId !== undefined], changed }
      }
    })()`)
    expect(seen).toEqual({
      total: 2,
      names: ['Ann', 'Bea'],
      stale: ['version_mismatch', true],
      changed: ['Bea', 'Anna'],
    })
  })

  test('is told of a service that cannot be reached, and of an aborted call', async () => {
    const page = await (await openContext()).newPage()
    await page.goto(await openOtherOrigin())
    const seen = await page.evaluate(`(async () => {
      const { createClient } = await import('/client.js')
      const users = createClient({ url: 'http://127.0.0.1:9', retries: 0 })
      const error = await users.read(1).catch(error => error)
      const aborted = await users.read(1, { signal: AbortSignal.abort('enough') }).catch(reason => reason)
      return [error.name, error.reason, aborted]
    })()`)
    expect(seen).toEqual(['UserRecordsError', 'unreachable', 'enough'])
  })
})
