import type { Locator } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { openKeyedApp } from '../support/api-keys.ts'
import { openPage, whyNoBrowser } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { allOperations, execute, open, operation } from '../support/operations-page.ts'

const reason = whyNoBrowser()
if (reason !== undefined) console.log(`skipped in a browser: ${reason}`)

/** A browser is slow on a busy machine. */
const TIMEOUT_MS = 300_000

/** What Chromium itself logs about any error response, even if the page expects it. */
const REFUSED = /^error: Failed to load resource: the server responded with a status of 422\b/

interface Document {
  readonly info: { readonly title: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, { operationId?: string }>>>>
}

async function operationsOf(url: string): Promise<readonly string[]> {
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Document
  return Object.values(paths).flatMap(item =>
    Object.values(item).flatMap(({ operationId }) => operationId ?? []),
  )
}

/** The response as the page shows it. */
async function answerIn(section: Locator): Promise<{ body: string; head: string }> {
  const answer = section.locator('.live-responses-table tr.response .response-col_description')
  return {
    body: await answer.locator('.highlight-code code').first().innerText(),
    head: (await answer.locator('.headerline').allInnerTexts()).join('\n'),
  }
}

describe.skipIf(reason !== undefined)('in a browser', { timeout: TIMEOUT_MS }, () => {
  test('GET /docs lists every operation of the document', async () => {
    const { url } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
    await page.locator('.opblock').first().waitFor()
    const shown = await page.locator('.opblock-summary-operation-id').allInnerTexts()
    const operations = await operationsOf(url)
    expect(operations.length).toBeGreaterThan(6)
    expect(shown.toSorted()).toEqual(operations.toSorted())
    expect(await page.title()).toMatch(/^User Records Service/)
    for (const schema of await page.locator('.models .json-schema-2020-12-accordion').all()) {
      if ((await schema.getAttribute('aria-expanded')) === 'false') await schema.click()
    }
    await operation(page, 'GET', '/livez').locator('.opblock-summary-control').click()
    expect(page.url()).toMatch(/#\/Health\/\w+$/)
    await page.reload()
    await page.locator('.opblock.is-open [data-path="/livez"]').waitFor()
    expect(troubles).toEqual([])
  })

  test('GET /docs creates the user of its example, and shows the 201 with its request id', async () => {
    const { url, http } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
    const create = operation(page, 'POST', '/users')
    await create.locator('.opblock-summary-control').click()
    const sent = JSON.parse(await create.locator('textarea.body-param__text').inputValue())
    expect(await execute(create)).toBe('201')
    const { body, head } = await answerIn(create)
    const user = JSON.parse(body)
    expect(user).toMatchObject({ id: 1, name: sent.user.name, email: sent.user.email })
    expect(head).toMatch(/x-request-id: [\w-]{36}/)
    expect((await http.get('/users/1').expect(200)).body).toEqual(user)
    expect(troubles).toEqual([])
  })

  test('GET /docs shows the 422 of an invalid user', async () => {
    const { url, http } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
    const create = operation(page, 'POST', '/users')
    await create.locator('.opblock-summary-control').click()
    await create.locator('textarea.body-param__text').fill('{"user": {"name": "", "email": "x"}}')
    expect(await execute(create)).toBe('422')
    expect(JSON.parse((await answerIn(create)).body)).toEqual({
      message: 'Validation failed',
      resource: 'User',
      code: 422,
      status: false,
      reason: 'validation_failed',
      errors: { name: ["can't be blank"], email: ['is invalid'] },
    })
    expect((await http.get('/users')).body).toEqual([])
    expect(troubles.filter(trouble => !REFUSED.test(trouble))).toEqual([])
  })

  test('GET /docs gets a success from every operation, from top to bottom, with the values it has filled in', async () => {
    const { url, http } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
    const statuses: Record<string, string> = {}
    for (const section of await allOperations(page)) {
      const id = await section.locator('.opblock-summary-operation-id').innerText()
      await open(section)
      statuses[id] = await execute(section)
    }
    expect(statuses).toMatchObject({ createUser: '201', updateUser: '200', deleteUser: '204' })
    expect(Object.keys(statuses).toSorted()).toEqual((await operationsOf(url)).toSorted())
    expect(Object.entries(statuses).filter(([, status]) => !/^20[014]$/.test(status))).toEqual([])
    expect((await http.get('/users')).body).toEqual([])
    expect(troubles).toEqual([])
  })

  test('GET /docs takes an API key where one is required, and sends it only then', async () => {
    const { url, bearers, logLines } = await openKeyedApp([{ name: 'docs' }])
    const key = bearers[0]?.slice('Bearer '.length) ?? ''
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
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
    const refused = /^error: Failed to load resource: the server responded with a status of 401\b/
    expect(troubles.filter(trouble => !refused.test(trouble))).toEqual([])
  })

  test('GET /docs has no button for a key where none is required', async () => {
    const { url } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
    await page.locator('.opblock').first().waitFor()
    expect(await page.locator('.authorize').count()).toBe(0)
    expect(troubles).toEqual([])
  })

  test('GET /docs follows the colours of the system, also while it is open', async () => {
    const { url } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
    await page.locator('.opblock').first().waitFor()
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.locator('html.dark-mode').waitFor()
    const script = `getComputedStyle(document.querySelector('.swagger-ui')).backgroundColor`
    expect(await page.evaluate(script)).toBe('rgb(28, 32, 34)')
    await page.emulateMedia({ colorScheme: 'light' })
    await page.locator('html:not(.dark-mode)').waitFor()
    expect(troubles).toEqual([])
  })

  test.each(['light', 'dark'] as const)('GET / leads a browser everywhere, in %s', async scheme => {
    const { url } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.setViewportSize({ width: 390, height: 844 })
    await page.emulateMedia({ colorScheme: scheme })
    await page.goto(url)
    // The style is in force: a wrong policy would leave the page without it.
    const border = `getComputedStyle(document.querySelector('pre')).borderTopStyle`
    expect(await page.evaluate(border)).toBe('solid')
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(390)
    expect(troubles).toEqual([])
    for (const place of ['/docs', '/openapi.json', '/users', '/livez', '/readyz']) {
      await page.goto(url)
      const [answer] = await Promise.all([
        page.waitForResponse(`${url}${place}`),
        page.locator(`a[href="${place}"]`).click(),
      ])
      expect(answer.status()).toBe(200)
    }
  })
})
