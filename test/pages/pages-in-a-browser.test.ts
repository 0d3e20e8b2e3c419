import type { Locator, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { openKeyedApp } from '../support/api-keys.ts'
import { whyNoBrowser } from '../support/chromium-settings.ts'
import { findSerious, LOOKS, openPage } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { operationId?: string }>>>>
}

async function operationsOf(url: string): Promise<readonly string[]> {
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Document
  return Object.values(paths)
    .flatMap(item => Object.values(item).flatMap(({ operationId }) => operationId ?? []))
    .toSorted()
}

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
  return {
    page,
    troubles: status => {
      const expected = `error: Failed to load resource: the server responded with a status of ${status} `
      return troubles.filter(trouble => !trouble.startsWith(expected))
    },
  }
}

/** The response as the page shows it. */
async function answerIn(section: Locator): Promise<{ body: unknown; head: string }> {
  const answer = section.locator('.live-responses-table tr.response .response-col_description')
  return {
    body: JSON.parse(await answer.locator('.highlight-code code').first().innerText()),
    head: (await answer.locator('.headerline').allInnerTexts()).join('\n'),
  }
}

/** The section of one operation on the page, such as `POST /users`. */
function operation(page: Page, method: string, path: string): Locator {
  return page
    .locator(`.opblock-${method.toLowerCase()}`)
    .filter({ has: page.locator(`[data-path="${path}"]`) })
}

/** Opens a section, and waits until it shows its responses. */
async function open(section: Locator): Promise<void> {
  await section.locator('.opblock-summary-control').click()
  await section.locator('.responses-table').first().waitFor()
}

/** Sends the form and returns the status that the page shows. */
async function execute(section: Locator): Promise<string> {
  await section.locator('button.execute').click()
  const status = section.locator('.live-responses-table tr.response .response-col_status')
  return (await status.innerText()).trim()
}

describe.skipIf(whyNoBrowser())('in a browser', () => {
  test('GET /docs lists every operation, asks for no key, and has the colours of the system', async () => {
    const { url } = await openTestApp()
    const { page, troubles } = await openDocs(url)
    const shown = await page.locator('.opblock-summary-operation-id').allInnerTexts()
    const operations = await operationsOf(url)
    expect(operations.length).toBeGreaterThan(6)
    expect(shown.toSorted()).toEqual(operations)
    expect(await page.title()).toMatch(/^User Records Service/)
    expect(await page.locator('.authorize').count()).toBe(0)
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.locator('html.dark-mode').waitFor()
    const script = `getComputedStyle(document.querySelector('.swagger-ui')).backgroundColor`
    expect(await page.evaluate(script)).toBe('rgb(28, 32, 34)')
    await page.emulateMedia({ colorScheme: 'light' })
    await page.locator('html:not(.dark-mode)').waitFor()
    await operation(page, 'GET', '/livez').locator('.opblock-summary-control').click()
    expect(page.url()).toMatch(/#\/Health\/\w+$/)
    await page.reload()
    await page.locator('.opblock.is-open [data-path="/livez"]').waitFor()
    expect(troubles()).toEqual([])
  })

  test('GET /docs creates the user of its example, and shows the 201 with its request id, and a 422', async () => {
    const { url, http } = await openTestApp()
    const { page, troubles } = await openDocs(url)
    const create = operation(page, 'POST', '/users')
    await open(create)
    const input = create.locator('textarea.body-param__text')
    const sent = JSON.parse(await input.inputValue())
    expect(await execute(create)).toBe('201')
    const { body, head } = await answerIn(create)
    expect(body).toMatchObject({ id: 1, name: sent.user.name, email: sent.user.email })
    expect(head).toMatch(/x-request-id: [\w-]{36}/)
    await http.get('/users/1').expect(200, body as object)
    expect(troubles()).toEqual([])

    await input.fill('{"user": {"name": "", "email": "x"}}')
    const refused = page.waitForResponse(response => response.status() === 422)
    await create.locator('button.execute').click()
    await refused
    await create.locator('.live-responses-table', { hasText: '422' }).waitFor()
    expect((await answerIn(create)).body).toEqual({
      ...{ message: 'Validation failed', resource: 'User', code: 422, status: false },
      reason: 'validation_failed',
      errors: { name: ["can't be blank"], email: ['is invalid'] },
    })
    expect((await http.get('/users')).body).toEqual([body])
    expect(troubles(422)).toEqual([])
  })

  test('GET /docs takes an API key where one is required, and sends it only then', async () => {
    const { url, bearers, logLines } = await openKeyedApp([{ name: 'docs' }])
    const key = bearers[0]?.slice('Bearer '.length) ?? ''
    const { page, troubles } = await openDocs(url)
    const list = operation(page, 'GET', '/users')
    await open(list)
    expect(await execute(list)).toBe('401')
    await page.getByRole('button', { name: 'Authorize', exact: true }).click()
    await page.locator('.modal-ux input').fill(key)
    await page.locator('.modal-ux button.authorize').click()
    await page.locator('.modal-ux button.btn-done').click()
    expect(await execute(list)).toBe('200')
    expect(logLines.some(line => line.key === 'docs' && line.status === 200)).toBe(true)
    const stored = await page.evaluate('JSON.stringify([localStorage, sessionStorage])')
    expect(stored).not.toContain(key)
    expect(troubles(401)).toEqual([])
  })

  describe('GET /', () => {
    const app = shareTestApp()

    test.each(LOOKS)('is readable in $scheme, $width pixels wide', async ({ scheme, width }) => {
      const { page, troubles } = await openPage(app.url)
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme: scheme })
      await page.goto(app.url)
      // The style is in force: a wrong policy would leave the page without it.
      const border = `getComputedStyle(document.querySelector('pre')).borderTopStyle`
      expect(await page.evaluate(border)).toBe('solid')
      expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(width)
      expect(await findSerious(page)).toEqual([])
      expect(troubles).toEqual([])
    })

    test('leads a browser everywhere', async () => {
      const { page } = await openPage(app.url)
      for (const place of ['/docs', '/openapi.json', '/users', '/livez', '/readyz']) {
        await page.goto(app.url)
        const [answer] = await Promise.all([
          page.waitForResponse(`${app.url}${place}`),
          page.locator(`a[href="${place}"]`).click(),
        ])
        expect(answer.status()).toBe(200)
      }
    })
  })
})
