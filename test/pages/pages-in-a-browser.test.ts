import type { Locator, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { expectReadable, LOOKS, openContext, openPage } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { canOpenPages } from '../support/programs.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { untilPasses } from '../support/until.ts'

describe.skipIf(!canOpenPages)('in a browser', () => {
  test('GET /docs lists every operation, has the colours of the system, and executes a create and a list', async () => {
    const { url, http } = await openTestApp()
    const { page, troubles } = await openDocs(url)
    const { paths } = (await http.get('/openapi.json')).body
    const described = Object.values<Record<string, { operationId?: string }>>(paths)
      .flatMap(item => Object.values(item).flatMap(({ operationId }) => operationId ?? []))
      .toSorted()
    const shown = await page.locator('.opblock-summary-operation-id').allInnerTexts()
    expect(described.length).toBeGreaterThan(6)
    expect(shown.toSorted()).toEqual(described)
    expect(await page.locator('.authorize').count()).toBe(0)
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.locator('html.dark-mode').waitFor()
    const script = `getComputedStyle(document.querySelector('.swagger-ui')).backgroundColor`
    expect(await page.evaluate(script)).toBe('rgb(28, 32, 34)')
    await page.emulateMedia({ colorScheme: 'light' })
    await page.locator('html:not(.dark-mode)').waitFor()

    const create = await openOperation(page, 'POST', '/users')
    expect(page.url()).toMatch(/#\/\w+\/createUser$/)
    const codes = await create.locator('.responses-table .response-col_status').allInnerTexts()
    expect(codes.slice(1)).toEqual(['200', '201', 'default', '4XX', '5XX'])
    expect(await create.locator('.response', { hasText: '422 email_taken' }).count()).toBe(1)
    const input = create.locator('textarea.body-param__text')
    const { user } = JSON.parse(await input.inputValue())
    await execute(create, '201')
    const { body, head } = await answerIn(create)
    expect(body).toMatchObject({ id: 1, name: user.name, email: user.email })
    expect(head).toMatch(/x-request-id: [\w-]{36}/)
    const list = await openOperation(page, 'GET', '/users')
    await execute(list, '200')
    expect(troubles()).toEqual([])

    await input.fill('{"user": {"name": "", "email": "x"}}')
    await create.locator('button.execute').click()
    await create.locator('.live-responses-table', { hasText: '422' }).waitFor()
    const errors = { name: ["can't be blank"], email: ['is invalid'] }
    expect((await answerIn(create)).body).toMatchObject({ code: 422, errors })
    expect((await http.get('/users')).body).toEqual([body])
    expect(troubles(422)).toEqual([])
  })

  test('GET /docs takes an API key where one is required, and sends it only then', async () => {
    const { url, bearers, logLines } = await openTestApp({ keys: [{ name: 'docs' }] })
    const key = bearers[0]?.slice('Bearer '.length) ?? ''
    const { page, troubles } = await openDocs(url)
    const list = await openOperation(page, 'GET', '/users')
    await execute(list, '401')
    await page.getByRole('button', { name: 'Authorize', exact: true }).click()
    await page.locator('.modal-ux input').fill(key)
    await page.locator('.modal-ux button.authorize').click()
    await page.locator('.modal-ux button.btn-done').click()
    await execute(list, '200')
    expect(logLines.some(line => line.key === 'docs' && line.status === 200)).toBe(true)
    const stored = await page.evaluate('JSON.stringify([localStorage, sessionStorage])')
    expect(stored).not.toContain(key)
    expect(troubles(401)).toEqual([])
  })

  const app = shareTestApp()

  test('GET / is readable in light and dark, wide and narrow, and leads everywhere', async () => {
    const { page, troubles } = await openPage(app.url)
    await page.goto(app.url)
    // The style is in force: a wrong policy would leave the page without it.
    const border = `getComputedStyle(document.querySelector('pre')).borderTopStyle`
    expect(await page.evaluate(border)).toBe('solid')
    for (const look of LOOKS) {
      await expectReadable(page, look)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(look.width)
    }
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy: Create a user' }).click()
    await page.getByText('Copied').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toMatch(/^curl .*correct horse/s)
    const commands = (await page.locator('pre').allInnerTexts()).join('\n')
    expect(commands.match(/^curl .*http.*/gm)?.length).toBeGreaterThan(6)
    expect(commands.replaceAll(`'${app.url}/`, '')).not.toMatch(/http:|DELETE/)
    expect(troubles).toEqual([])
    for (const place of ['/docs', '/openapi.json', '/users', '/livez', '/readyz']) {
      await page.goto(app.url)
      const answer = page.waitForResponse(`${app.url}${place}`)
      await page.locator(`a[href="${place}"]`).first().click()
      expect((await answer).status()).toBe(200)
    }
  })

  test.each([
    { does: 'nothing', hosts: '', statuses: [421, 421], users: 1 },
    { does: 'everything', hosts: '*', statuses: [200, 201], users: 2 },
  ])(
    'a page whose host name resolves to this service reads and changes $does with ALLOWED_HOSTS=$hosts',
    async ({ hosts, statuses, users }) => {
      const env = { ALLOWED_HOSTS: hosts }
      const { http, port } = await openTestApp({ env, users: [newUserBody()] })
      const page = await (await openContext()).newPage()
      const own = `http://evil.example:${port}/own-page`
      await page.route(own, route => route.fulfill({ contentType: 'text/html', body: '<p>Hello' }))
      await page.goto(own)
      const seen = await page.evaluate(
        async body => {
          const read = await fetch('/users')
          const headers = { 'Content-Type': 'application/json' }
          const write = await fetch('/users', { method: 'POST', headers, body })
          return { statuses: [read.status, write.status], text: await read.text() }
        },
        JSON.stringify(newUserBody({ email: 'eve@evil.example' })),
      )
      expect(seen.statuses).toEqual(statuses)
      expect(seen.text.includes('@')).toBe(users === 2)
      expect((await http.get('/users')).body).toHaveLength(users)
    },
  )
})

interface DocsPage {
  readonly page: Page
  /** Problems so far, but for what Chromium itself logs about an answer with this status. */
  troubles(expectedStatus?: number): readonly string[]
}

/** The page of `GET /docs`, once it shows the operations. */
async function openDocs(url: string): Promise<DocsPage> {
  const { page, troubles } = await openPage(url)
  await page.goto(`${url}/docs`)
  await page.locator('.opblock').first().waitFor()
  const logged = 'error: Failed to load resource: the server responded with a status of'
  return {
    page,
    troubles: status => troubles.filter(trouble => !trouble.startsWith(`${logged} ${status} `)),
  }
}

/** The section of one operation, once it shows its responses. */
async function openOperation(page: Page, method: string, path: string): Promise<Locator> {
  const section = page
    .locator(`.opblock-${method.toLowerCase()}`)
    .filter({ has: page.locator(`[data-path="${path}"]`) })
  await section.locator('.opblock-summary-control').click()
  await section.locator('.responses-table').first().waitFor()
  return section
}

/** Sends the form, and expects that the page shows this status. */
async function execute(section: Locator, expected: string): Promise<void> {
  await section.locator('button.execute').click()
  const status = section.locator('.live-responses-table tr.response .response-col_status')
  // The page shows an earlier answer until there is another one.
  await untilPasses(async () => expect((await status.innerText()).trim()).toBe(expected))
}

/** The response as the page shows it. */
async function answerIn(section: Locator): Promise<{ body: unknown; head: string }> {
  const answer = section.locator('.live-responses-table tr.response .response-col_description')
  return {
    body: JSON.parse(await answer.locator('.highlight-code code').first().innerText()),
    head: (await answer.locator('.headerline').allInnerTexts()).join('\n'),
  }
}
