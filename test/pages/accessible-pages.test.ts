import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { openPage, whyNoBrowser } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'

const reason = whyNoBrowser()
if (reason !== undefined) console.log(`skipped in a browser: ${reason}`)

/** A browser is slow on a busy machine. */
const TIMEOUT_MS = 300_000

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The serious and critical findings of axe on the page as it is shown now, with the elements. */
async function findings(page: Page): Promise<readonly unknown[]> {
  const { violations } = await page.evaluate<AxeResults>(`${AXE}; axe.run(document)`)
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  return grave.map(({ id, impact, nodes }) => [impact, id, nodes.map(({ html }) => html)])
}

const LOOKS = (['light', 'dark'] as const).flatMap(scheme =>
  [1280, 390].map(width => ({ scheme, width })),
)

describe.skipIf(reason !== undefined)('axe finds nothing serious', { timeout: TIMEOUT_MS }, () => {
  describe.each(LOOKS)('in $scheme, $width pixels wide', ({ scheme, width }) => {
    async function openAt(path: string): Promise<Page> {
      const { url } = await openTestApp()
      const { page } = await openPage(url)
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme: scheme })
      await page.goto(url + path)
      return page
    }

    test('on GET /', async () => {
      const page = await openAt('/')
      expect(await findings(page)).toEqual([])
    })
  })
})
