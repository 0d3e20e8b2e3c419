import { existsSync } from 'node:fs'

/** The shell without a window takes half of the time. */
const PLACES = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium']

/** The browser that opens the pages. */
export const CHROMIUM = process.env.CHROMIUM_PATH || (PLACES.find(existsSync) ?? PLACES[0] ?? '')

/** Why no test opens a page in a browser here. Undefined if they do. */
export function whyNoBrowser(): string | undefined {
  if (existsSync(CHROMIUM)) return undefined
  return `tests in a browser are skipped: there is no Chromium at ${CHROMIUM} (CHROMIUM_PATH)`
}
