import { expect, test } from 'vitest'
import { bundleClient } from '../support/bundle-client.ts'
import { openContext } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { canOpenPages } from '../support/programs.ts'

const ORIGIN = 'http://elsewhere.localhost'

test.runIf(canOpenPages)(
  'the client in a page of another origin creates, lists by pages, updates by version and follows',
  async () => {
    const { code } = await bundleClient()
    const { url } = await openTestApp({ env: { CORS_ORIGINS: ORIGIN } })
    const page = await (await openContext()).newPage()
    await page.route(`${ORIGIN}/`, route =>
      route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>Empty</title>' }),
    )
    await page.route(`${ORIGIN}/client.js`, route =>
      route.fulfill({ contentType: 'text/javascript', body: code }),
    )
    await page.goto(ORIGIN)
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
  },
)
