import type { Locator, Page } from 'playwright-core'

/** The section of one operation on the page of `GET /docs`, such as `POST /users`. */
export function operation(page: Page, method: string, path: string): Locator {
  return page
    .locator(`.opblock-${method.toLowerCase()}`)
    .filter({ has: page.locator(`[data-path="${path}"]`) })
}

/** All sections in the order of the page, once it shows them. */
export async function allOperations(page: Page): Promise<readonly Locator[]> {
  await page.locator('.opblock').first().waitFor()
  return page.locator('.opblock').all()
}

/** Opens a section, and waits until it shows its responses. */
export async function open(section: Locator): Promise<void> {
  await section.locator('.opblock-summary-control').click()
  await section.locator('.responses-table').first().waitFor()
}

/** Sends the form and returns the status that the page shows. */
export async function execute(section: Locator): Promise<string> {
  await section.locator('button.execute').click()
  const status = section.locator('.live-responses-table tr.response .response-col_status')
  return (await status.innerText()).trim()
}
