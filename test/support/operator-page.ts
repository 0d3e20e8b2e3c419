import type { Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { openPage } from './open-browser.ts'
import { until } from './until.ts'

/** What Chromium itself logs about answers that the page expects, and about a service that is away. */
const EXPECTED =
  /^(?:error: Failed to load resource: (?:the server responded with a status of 4\d\d|net::ERR_)|failed: )/

export type OperatorPage = Awaited<ReturnType<typeof openOperatorPage>>

/** The operator's page, once it shows data or asks for a token. The test fails if it has other troubles than answers that it expects. */
export async function openOperatorPage(url: string, { isLocked = false } = {}) {
  const watched = await openPage(url)
  const { page, troubles } = watched
  onTestFinished(() => expect(troubles.filter(trouble => !EXPECTED.test(trouble))).toEqual([]))
  await page.goto(`${url}/`)
  /** The text of the part of the page with an id. */
  const textOf = async (id: string) => squeeze(await page.locator(`#${id}`).innerText())
  /** Resolves once the part with an id has this text. */
  const shows = async (id: string, sought: string | RegExp): Promise<void> => {
    const holds = (text: string) =>
      typeof sought === 'string' ? text.includes(sought) : sought.test(text)
    await until(async () => holds(await textOf(id)), 50)
  }
  if (isLocked) await page.locator('#token').waitFor()
  else await shows('connection', 'Live')
  return {
    ...watched,
    textOf,
    shows,
    /** The rows of the table in the part with an id, as texts of their cells. */
    rowsOf: async (id: string): Promise<readonly (readonly string[])[]> => {
      const rows = await page.locator(`#${id} tbody tr`).all()
      return Promise.all(
        rows.map(async row => (await row.locator('th, td').allInnerTexts()).map(squeeze)),
      )
    },
    /** Resolves once the table in the part with an id has this many rows. */
    hasRows: async (id: string, count: number): Promise<void> => {
      await until(async () => (await page.locator(`#${id} tbody tr`).count()) === count, 50)
    },
    /** Dismisses this many questions of the page, and accepts all later ones. Returns their texts. */
    answerQuestions: (dismissals = 0): readonly string[] => {
      const questions: string[] = []
      page.on('dialog', dialog => {
        questions.push(dialog.message())
        void dialog[questions.length > dismissals ? 'accept' : 'dismiss']()
      })
      return questions
    },
    button: (name: string) => page.getByRole('button', { name, exact: true }),
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
