import type { Locator, Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { openPage, type WatchedPage } from './open-browser.ts'
import type { AtEnd } from './open-test-app.ts'
import { until } from './until.ts'

/** What Chromium itself logs about answers that the page expects, and about a service that is away. */
const EXPECTED =
  /^(?:error: Failed to load resource: (?:the server responded with a status of 4\d\d|net::ERR_)|failed: )/

export interface OperatorPage extends WatchedPage {
  /** Troubles but for answers that the page expects. */
  unexpected(): readonly string[]
  /** The text of the part of the page with an id. */
  textOf(id: string): Promise<string>
  /** Resolves once the part with an id has this text. */
  shows(id: string, text: string | RegExp): Promise<void>
  /** Resolves once a notice has this text. */
  notices(text: string | RegExp): Promise<void>
  /** The rows of the table in the part with an id, as texts of their cells. */
  rowsOf(id: string): Promise<readonly (readonly string[])[]>
  /** Resolves once the table in the part with an id has this many rows. */
  hasRows(id: string, count: number): Promise<void>
  button(name: string): Locator
}

/** The operator's page, once it shows data or asks for a token. */
export async function openOperatorPage(
  url: string,
  { isLocked = false, atEnd = onTestFinished }: { isLocked?: boolean; atEnd?: AtEnd } = {},
): Promise<OperatorPage> {
  const watched = await openPage(url, atEnd)
  const { page, troubles } = watched
  await page.goto(`${url}/`)
  const textOf = async (id: string) => squeeze(await page.locator(`#${id}`).innerText())
  const holds = (text: string, sought: string | RegExp) =>
    typeof sought === 'string' ? text.includes(sought) : sought.test(text)
  const shows = async (id: string, sought: string | RegExp) => {
    await until(async () => holds(await textOf(id), sought), 50)
  }
  if (isLocked) await page.locator('#token-dialog[open]').waitFor()
  else await shows('connection', 'Live')
  return {
    ...watched,
    unexpected: () => troubles.filter(trouble => !EXPECTED.test(trouble)),
    textOf,
    shows,
    notices: sought => shows('notices', sought),
    rowsOf: async id => {
      const rows = await page.locator(`#${id} tbody tr`).all()
      return Promise.all(
        rows.map(async row => (await row.locator('th, td').allInnerTexts()).map(squeeze)),
      )
    },
    hasRows: async (id, count) => {
      await until(async () => (await page.locator(`#${id} tbody tr`).count()) === count, 50)
    },
    button: name => page.getByRole('button', { name, exact: true }),
  }
}

/** The accessible name of what has the focus, or else its text. */
export function focused(page: Page): Promise<string> {
  return page.evaluate<string>(
    `(document.activeElement.getAttribute('aria-label') || document.activeElement.id || document.activeElement.textContent).trim()`,
  )
}

/** Presses Tab until the element with this name or id has the focus. */
export async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 200; presses++) {
    if ((await focused(page)) === name) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`the focus did not reach ${name}`)
}

function squeeze(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}
