import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { whyNoBrowser } from '../support/chromium-settings.ts'
import { openContext } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'

/** What scripts of a page at evil.example get, after its name has begun to resolve to 127.0.0.1. */
async function actAs(port: number) {
  const page = await (await openContext()).newPage()
  const own = `http://evil.example:${port}/own-page`
  await page.route(own, route => route.fulfill({ contentType: 'text/html', body: '<p>Hello' }))
  await page.goto(own)
  return page.evaluate(
    async body => {
      const read = await fetch('/users')
      const headers = { 'Content-Type': 'application/json' }
      const write = await fetch('/users', { method: 'POST', headers, body })
      return { statuses: [read.status, write.status], text: await read.text() }
    },
    JSON.stringify(newUserBody({ email: 'eve@evil.example' })),
  )
}

describe.skipIf(whyNoBrowser())('a page whose host name resolves to this service', () => {
  test.each([
    { does: 'nothing', hosts: '', statuses: [421, 421], users: 1 },
    { does: 'everything', hosts: '*', statuses: [200, 201], users: 2 },
  ])('reads and changes $does with ALLOWED_HOSTS=$hosts', async ({ hosts, statuses, users }) => {
    const { http, port } = await openTestApp({
      env: { ALLOWED_HOSTS: hosts },
      users: [newUserBody()],
    })
    const seen = await actAs(port)
    expect(seen.statuses).toEqual(statuses)
    expect(seen.text.includes('@')).toBe(users === 2)
    expect((await http.get('/users')).body).toHaveLength(users)
  })
})
