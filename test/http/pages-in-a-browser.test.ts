import type { Locator, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openPage, whyNoBrowser } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'

const reason = whyNoBrowser()
if (reason !== undefined) console.log(`skipped in a browser: ${reason}`)

/** A browser takes its time on a busy machine. */
const TIMEOUT_MS = 300_000

/** What Chromium itself says of any answer that is an error, also where the page expects it. */
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

/** The section of one operation, such as `POST /users`. */
function operation(page: Page, method: string, path: string): Locator {
  return page
    .locator(`.opblock-${method.toLowerCase()}`)
    .filter({ has: page.locator(`[data-path="${path}"]`) })
}

/** Sends what is filled in; the status that comes back is shown. */
async function execute(section: Locator): Promise<string> {
  await section.locator('button.execute').click()
  const status = section.locator('.live-responses-table tr.response .response-col_status')
  return (await status.innerText()).trim()
}

/** What is shown of the answer that came back. */
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

  test('GET /docs creates a user as its example has it, and shows the 201 with its request id', async () => {
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

  test('GET /docs shows the 422 of a user who is wrong', async () => {
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
      errors: { name: ["can't be blank"], email: ['is invalid'] },
    })
    expect((await http.get('/users')).body).toEqual([])
    expect(troubles.filter(trouble => !REFUSED.test(trouble))).toEqual([])
  })

  test('GET /docs lists, reads, changes and deletes a user with what is filled in already', async () => {
    const { url, http } = await openTestApp()
    await http.post('/users').send(newUserBody()).expect(201)
    const { page, troubles } = await openPage(url)
    await page.goto(`${url}/docs`)
    for (const [method, path, status] of [
      ['GET', '/users', '200'],
      ['GET', '/users/{id}', '200'],
      ['PUT', '/users/{id}', '200'],
      ['DELETE', '/users/{id}', '204'],
    ] as const) {
      const section = operation(page, method, path)
      await section.locator('.opblock-summary-control').click()
      expect([method, path, await execute(section)]).toEqual([method, path, status])
      await section.locator('.opblock-summary-control').click()
    }
    expect((await http.get('/users')).body).toEqual([])
    expect(troubles).toEqual([])
  })

  test('GET /docs fits a phone', async () => {
    const { url } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.setViewportSize({ width: 390, height: 844 })
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.goto(`${url}/docs`)
    await operation(page, 'POST', '/users').locator('.opblock-summary-control').click()
    await page.locator('.opblock.is-open .responses-table').waitFor()
    const width = await page.evaluate<number>('document.documentElement.scrollWidth')
    expect(width).toBeLessThanOrEqual(390)
    expect(troubles).toEqual([])
  })

  test.each(['light', 'dark'] as const)('GET / leads a browser everywhere, in %s', async scheme => {
    const { url } = await openTestApp()
    const { page, troubles } = await openPage(url)
    await page.setViewportSize({ width: 390, height: 844 })
    await page.emulateMedia({ colorScheme: scheme })
    await page.goto(url)
    expect(await page.locator('.state').innerText()).toContain('Ready')
    expect(await page.locator('code').nth(1).innerText()).toBe(`curl ${url}/users`)
    // The style is in force: a policy that refused it would leave the page without.
    const background = `getComputedStyle(document.querySelector('pre')).backgroundColor`
    expect(await page.evaluate(background)).toBe(
      scheme === 'light' ? 'rgb(241, 244, 248)' : 'rgb(30, 37, 45)',
    )
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
