import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { CHROMIUM } from './programs.ts'

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // A page from elsewhere whose name has begun to resolve to this machine.
  '--host-resolver-rules=MAP evil.example 127.0.0.1',
  // Newer browsers keep such a page away from this machine. Older ones do not.
  '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests',
]

/** Generous, because a browser is slow on a busy machine. */
const TIMEOUT_MS = 100_000

/**
 * Starting one takes seconds, so all files of a worker share it. Nothing closes it: it ends when the worker does, at the latest with
 * the pipe between them.
 */
let shared: Promise<Browser> | undefined

/**
 * A page that may only reach the service at `url`, with nothing of other tests, and its problems so far: console messages, requests
 * that failed or went to another server, policy violations. It ends with the test.
 */
export async function openPage(url: string) {
  const context = await openContext()
  const page = await context.newPage()
  const troubles: string[] = []
  await page.exposeFunction('reportViolation', (text: string) => troubles.push(`policy: ${text}`))
  await page.addInitScript(watchPolicy)
  page.on('console', message => {
    const isLogged = ['error', 'warning', 'assert'].includes(message.type())
    if (isLogged) troubles.push(`${message.type()}: ${message.text()}`)
  })
  page.on('pageerror', error => troubles.push(`uncaught: ${error.message}`))
  page.on('requestfailed', request => troubles.push(`failed: ${request.url()}`))
  context.on('request', request => {
    const isOwn = request.url().startsWith(`${url}/`) || /^(?:data|blob):/.test(request.url())
    if (!isOwn) troubles.push(`elsewhere: ${request.url()}`)
  })
  return { page, troubles }
}

/** What a new browser shows, without cookies, cache or storage of others. */
export async function openContext(): Promise<BrowserContext> {
  shared ??= chromium.launch({ executablePath: CHROMIUM, args: FLAGS })
  const browser = await shared
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 } })
  context.setDefaultTimeout(TIMEOUT_MS)
  onTestFinished(() => context.close())
  return context
}

/** What pages must be good for. */
export const LOOKS = (['light', 'dark'] as const).flatMap(scheme =>
  [1280, 390].map(width => ({ scheme, width })),
)

/** Gives a page a look, in which axe has nothing serious to say. */
export async function expectReadable(page: Page, { scheme, width }: (typeof LOOKS)[number]) {
  await page.setViewportSize({ width, height: 900 })
  await page.emulateMedia({ colorScheme: scheme })
  expect([scheme, width, await findSerious(page)]).toEqual([scheme, width, []])
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The serious and critical findings of axe on the page as it is shown now, with the elements. */
export async function findSerious(page: Page): Promise<readonly unknown[]> {
  const { violations } = await page.evaluate<AxeResults>(`${AXE}; axe.run(document)`)
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  return grave.map(({ id, impact, nodes }) => [impact, id, nodes.map(({ html }) => html)])
}

/** Runs in the page before its own scripts. */
function watchPolicy(): void {
  const { document, reportViolation } = globalThis as unknown as {
    document: EventTarget
    reportViolation: (text: string) => void
  }
  document.addEventListener('securitypolicyviolation', event => {
    const { violatedDirective, blockedURI } = event as unknown as Record<string, string>
    reportViolation(`${violatedDirective} ${blockedURI}`)
  })
}
