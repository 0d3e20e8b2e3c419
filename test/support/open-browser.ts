import { existsSync } from 'node:fs'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, onTestFinished } from 'vitest'

const CHROMIUM = process.env.CHROMIUM_PATH || '/usr/bin/chromium'

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Generous, because a browser is slow on a busy machine. */
const TIMEOUT_MS = 100_000

/** Starting one takes seconds, so all tests of a file share it. */
let shared: Promise<Browser> | undefined

afterAll(async () => (await shared)?.close())

/** Why there is no browser here, if so. */
export function whyNoBrowser(): string | undefined {
  return existsSync(CHROMIUM) ? undefined : `there is no Chromium at ${CHROMIUM} (CHROMIUM_PATH)`
}

export interface WatchedPage {
  readonly page: Page
  /** Problems so far: console messages, requests that failed or went to another server, policy violations. */
  readonly troubles: readonly string[]
}

/** A page that may only reach the service at `url`, with nothing of other tests. It ends with the test. */
export async function openPage(url: string): Promise<WatchedPage> {
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

/** What a new browser shows, without cookies, cache or storage of others. With `flags`, the browser is a new one too. */
export async function openContext(flags: readonly string[] = []): Promise<BrowserContext> {
  const isOwn = flags.length > 0
  const browser = await (isOwn ? launch(flags) : launchShared())
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 } })
  context.setDefaultTimeout(TIMEOUT_MS)
  onTestFinished(() => (isOwn ? browser : context).close())
  return context
}

function launchShared(): Promise<Browser> {
  shared ??= launch()
  return shared
}

function launch(flags: readonly string[] = []): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: [...FLAGS, ...flags] })
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
