import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { ServiceStatus } from '../../src/ops/management/service-status.ts'
import { findFreePort } from '../support/free-port.ts'
import { openManagedApp, TOKEN } from '../support/management-requests.ts'
import { whyNoBrowser } from '../support/open-browser.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { focused, openOperatorPage, tabTo } from '../support/operator-page.ts'
import { spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const reason = whyNoBrowser()
if (reason !== undefined) console.log(`skipped in a browser: ${reason}`)

/** A browser is slow on a busy machine. */
const TIMEOUT_MS = 300_000

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const CLIENT = '203.0.113.77'
const OTHER = '198.51.100.8'

const LIMITS = {
  throttle: [
    { name: 'few reads', method: 'GET', path: '/users/*', limit: 3, period: '1 hour' },
    { name: 'a try', method: 'GET', limit: 2, period: '1 hour', dryRun: true },
  ],
  bans: [
    { name: 'login', path: '/login', maxretry: 5, findtime: '1 minute', bantime: '1 hour' },
    { name: 'probing', path: '/wp-*', maxretry: 3, findtime: '10 minutes', bantime: '2 hours' },
  ],
}

async function addBan(ops: Awaited<ReturnType<typeof openManagedApp>>['ops'], client: string) {
  await ops
    .post('/bans')
    .send({ ban: { rule: 'login', client, for: '1 hour' } })
    .expect(201)
}

/** The serious and critical findings of axe on the page as it is shown now, with the elements. */
async function findings(page: Page): Promise<readonly unknown[]> {
  const { violations } = await page.evaluate<AxeResults>(`${AXE}; axe.run(document)`)
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  return grave.map(({ id, impact, nodes }) => [impact, id, nodes.map(({ html }) => html)])
}

describe.skipIf(reason !== undefined)('GET / in a browser', { timeout: TIMEOUT_MS }, () => {
  test('shows what GET /status says', async () => {
    const { ops, http, managementUrl } = await openManagedApp({ limits: LIMITS })
    await http
      .post('/users')
      .send({ user: { name: 'Ann', email: 'ann@example.com' } })
      .expect(201)
    for (let times = 0; times < 5; times++) await http.get('/users/1')
    await http.get('/nowhere').expect(404)
    await addBan(ops, CLIENT)
    const { textOf, shows, rowsOf, unexpected, page } = await openOperatorPage(managementUrl)
    await shows('tiles', '7 in all')
    const status: ServiceStatus = (await ops.get('/status').expect(200)).body
    expect(await textOf('version')).toBe(status.version)
    expect(await textOf('readiness')).toBe('Ready')
    expect(await textOf('checks')).toBe('service ok storage ok limits ok')
    expect(await rowsOf('limits')).toEqual(
      status.limits.rules.map(({ type, rule, dryRun, ...counts }) => [
        `${rule}${type}${dryRun ? 'dry run' : ''}`,
        ...[counts.counted, counts.passed, counts.refused, counts.would_refuse].map(String),
        expect.any(String),
      ]),
    )
    expect(status.limits.rules.map(({ refused, would_refuse }) => [refused, would_refuse])).toEqual(
      expect.arrayContaining([
        [2, 0],
        [0, expect.any(Number)],
      ]),
    )
    expect(await rowsOf('bans')).toEqual([[CLIENT, 'login', expect.stringMatching(/min/), 'Lift']])
    expect(await rowsOf('routes')).toEqual(
      status.requests.by_route.map(({ method, route, count, by_status }) => [
        `${method} ${route === '' ? 'no route' : route}`,
        String(count),
        ...[expect.any(String), expect.any(String)],
        String(
          Object.entries(by_status).reduce((sum, [key, n]) => sum + (key[0] === '4' ? n : 0), 0),
        ),
        '0',
      ]),
    )
    expect(await textOf('process')).toContain(`PID ${status.process.pid}`)
    expect(await textOf('database-engine')).toBe('SQLite')
    expect(await textOf('database')).toContain(`Commits in all ${status.storage.commits.count}`)
    const label = page.locator('.plot').first()
    await until(async () => /2xx/.test((await label.getAttribute('aria-label')) ?? ''), 50)
    expect(unexpected()).toEqual([])
  })

  test('adds, finds and lifts a ban by mouse', async () => {
    const { ops, managementUrl } = await openManagedApp({ limits: LIMITS })
    await addBan(ops, OTHER)
    const { page, rowsOf, button, notices, shows, unexpected } =
      await openOperatorPage(managementUrl)
    await button('Add a ban…').click()
    await page.locator('#add-for').fill('soon')
    await button('Add the ban').click()
    await shows('add-client-error', "can't be blank")
    await page.locator('#add-client').fill(CLIENT)
    await button('Add the ban').click()
    await shows('add-for-error', 'must be a time')
    expect(await focused(page)).toBe('add-for')
    await page.locator('#add-rule').selectOption('probing')
    await page.locator('#add-for').fill('30 minutes')
    await button('Add the ban').click()
    await notices(`${CLIENT} is banned by probing`)
    const { body } = await ops.get('/bans').expect(200)
    const bans = body as readonly { client: string }[]
    expect(bans.map(({ client }) => client).toSorted()).toEqual([CLIENT, OTHER].toSorted())

    await page.locator('#ban-client').fill(CLIENT)
    await button('Find').click()
    await until(async () => (await rowsOf('bans')).length === 1, 50)
    expect((await rowsOf('bans'))[0]?.slice(0, 2)).toEqual([CLIENT, 'probing'])

    const lift = button(`Lift the ban of ${CLIENT} by probing`)
    await lift.click()
    await shows('lift-facts', `Client ${CLIENT} Rule probing`)
    await button('Cancel').click()
    expect(await focused(page)).toBe(`Lift the ban of ${CLIENT} by probing`)
    expect((await ops.get('/bans')).body.length).toBe(2)
    await lift.click()
    await button('Lift the ban').click()
    await notices(`Lifted the ban of ${CLIENT} by probing.`)
    expect((await ops.get('/bans')).body).toEqual([expect.objectContaining({ client: OTHER })])
    expect(unexpected()).toEqual([])
  })

  test('adds and lifts a ban by keyboard only, and the focus is never lost', async () => {
    const { ops, managementUrl } = await openManagedApp({ limits: LIMITS })
    const { page, rowsOf, notices, unexpected } = await openOperatorPage(managementUrl)
    await tabTo(page, 'add-ban')
    await page.keyboard.press('Enter')
    expect(await focused(page)).toBe('add-client')
    await page.keyboard.press('Escape')
    expect(await focused(page)).toBe('add-ban')
    await page.keyboard.press('Space')
    await page.keyboard.type(CLIENT)
    await page.keyboard.press('Enter')
    await notices(`${CLIENT} is banned by login`)
    expect(await focused(page)).toBe('add-ban')
    await until(async () => (await rowsOf('bans')).length === 1, 50)
    await tabTo(page, `Lift the ban of ${CLIENT} by login`)
    await page.keyboard.press('Enter')
    await tabTo(page, 'Lift the ban')
    await page.keyboard.press('Enter')
    await notices(`Lifted the ban of ${CLIENT} by login.`)
    expect(await focused(page)).toBe('add-ban')
    expect((await ops.get('/bans')).body).toEqual([])
    expect(unexpected()).toEqual([])
  })

  test('shows bans by pages, and keeps the focus while it fetches them again', async () => {
    const { ops, managementUrl } = await openManagedApp({ limits: LIMITS })
    for (let host = 1; host <= 20; host++) await addBan(ops, `192.0.2.${host}`)
    const { page, rowsOf, button, shows, unexpected } = await openOperatorPage(managementUrl)
    await shows('bans-count', '20 in force')
    await until(async () => (await rowsOf('bans')).length === 15, 50)
    const first = await rowsOf('bans')
    await button('Next').click()
    await until(async () => (await rowsOf('bans')).length === 5, 50)
    await shows('ban-page', 'Page 2')
    const clients = [...first, ...(await rowsOf('bans'))].map(([client]) => client)
    expect(new Set(clients).size).toBe(20)
    const lift = page.locator('#bans tbody button').last()
    await lift.focus()
    const name = await focused(page)
    await ops.delete('/bans?client=192.0.2.1').expect(200)
    await shows('bans-count', '19 in force')
    expect(await focused(page)).toBe(name)
    await button('Previous').click()
    await until(async () => (await rowsOf('bans')).length === 15, 50)
    expect((await rowsOf('bans')).map(([client]) => client)).not.toContain('192.0.2.1')
    expect(unexpected()).toEqual([])
  })

  test('puts the limits file in force again, and shows what changed or is wrong', async () => {
    const { managementUrl, limitsPath } = await openManagedApp({ limits: LIMITS })
    const { page, button, shows, rowsOf, unexpected } = await openOperatorPage(managementUrl)
    const reload = button('Reload the file')
    await reload.click()
    await shows('reload-answer', 'Reloaded. No rule differs.')
    const throttle = [...LIMITS.throttle.slice(1), { name: 'new', limit: 9, period: 60 }]
    writeFileSync(limitsPath, JSON.stringify({ ...LIMITS, throttle }))
    await reload.click()
    await shows('reload-answer', /^Reloaded\. new: throttle "new" gone: throttle "few reads"/)
    await until(async () => (await rowsOf('limits')).some(([name]) => name === 'newthrottle'), 50)
    writeFileSync(limitsPath, JSON.stringify({ throttle: [{ limit: 0, period: 60 }], nonsense: 1 }))
    await reload.click()
    await shows('reload-answer', 'nonsense')
    expect(await page.locator('#reload-answer li').count()).toBe(2)
    expect(unexpected()).toEqual([])
  })

  test('asks for the token, keeps it for the tab, and forgets it', async () => {
    const { managementUrl } = await openManagedApp({ env: { MANAGEMENT_TOKEN: TOKEN } })
    const opened = await openOperatorPage(managementUrl, { isLocked: true })
    const { page, shows, button, textOf, unexpected } = opened
    expect(await textOf('readiness')).toBe('Locked')
    await page.keyboard.type('not-the-token-of-the-port')
    await page.keyboard.press('Enter')
    await shows('token-error', 'does not accept')
    expect(await focused(page)).toBe('token')
    await page.keyboard.type(TOKEN)
    await page.keyboard.press('Enter')
    await shows('connection', 'Live')
    expect(await page.evaluate('JSON.stringify([...Object.entries(localStorage)])')).toBe('[]')
    expect(await page.content()).not.toContain(TOKEN)
    expect(page.url()).not.toContain(TOKEN)
    await page.reload()
    await shows('connection', 'Live')
    await button('Forget the token').click()
    await page.locator('#token-dialog[open]').waitFor()
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    await page.keyboard.press('Escape')
    await button('Enter the token…').click()
    await page.keyboard.type(TOKEN)
    await page.keyboard.press('Enter')
    await shows('connection', 'Live')
    expect(unexpected()).toEqual([])
  })

  test('says since when the service cannot be reached, keeps its data, and goes on by itself', async () => {
    const { http, managementUrl } = await openManagedApp({ limits: LIMITS })
    await http.get('/users').expect(200)
    const opened = await openOperatorPage(managementUrl)
    const { page, shows, notices, textOf, rowsOf, unexpected } = opened
    await shows('tiles', '1 in all')
    await page.context().setOffline(true)
    await shows('connection', /^Unreachable since \d\d:\d\d:\d\d \(\d+ s\)\. Trying again…$/)
    expect(await textOf('readiness')).toBe('Unreachable')
    await shows('announcements', 'Unreachable since')
    expect(await page.title()).toMatch(/^Unreachable/)
    expect(await textOf('tiles')).toContain('1 in all')
    expect((await rowsOf('limits')).length).toBe(4)
    await http.get('/users').expect(200)
    await page.context().setOffline(false)
    await shows('connection', 'Live')
    await notices('The service answers again.')
    await shows('tiles', '2 in all')
    await shows('announcements', 'The service is ready.')
    expect(unexpected()).toEqual([])
  })

  test('goes on after an answer that is no status, such as that of a proxy', async () => {
    const { http, managementUrl } = await openManagedApp()
    const { page, shows } = await openOperatorPage(managementUrl)
    let answers = 0
    await page.route('**/status?*', async route => {
      answers++
      await route.fulfill({ json: {} })
    })
    await until(() => answers > 0, 50)
    await page.unroute('**/status?*')
    await http.get('/users').expect(200)
    await shows('tiles', '1 in all')
  })

  test('says that the service was restarted, and shows the new one', async () => {
    const cwd = temporaryFolder()
    const port = await findFreePort()
    const env = { MANAGEMENT_PORT: `${port}` }
    const service = await spawnService({ cwd, env })
    await fetch(`${service.url}/users`)
    const opened = await openOperatorPage(`http://127.0.0.1:${port}`)
    const { shows, notices, textOf, unexpected } = opened
    await shows('tiles', '1 in all')
    const before = await textOf('process')
    service.process.kill('SIGKILL')
    await service.exited
    await shows('connection', 'Unreachable')
    await spawnService({ cwd, env })
    await notices(/The service was restarted at \d\d:\d\d:\d\d\./)
    await shows('tiles', '0 in all')
    expect(await textOf('process')).not.toBe(before)
    expect(await textOf('readiness')).toBe('Ready')
    expect(unexpected()).toEqual([])
  })

  test('does not fetch while nobody sees it', async () => {
    const { managementUrl } = await openManagedApp()
    const { page, shows } = await openOperatorPage(managementUrl)
    const asked: string[] = []
    const setHidden = (isHidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} });
         document.dispatchEvent(new Event('visibilitychange'))`,
      )
    await setHidden(true)
    const clock = await page.locator('#connection').innerText()
    page.on('request', request => asked.push(request.url()))
    // More than two rounds.
    await page.waitForTimeout(5000)
    expect(asked).toEqual([])
    await setHidden(false)
    await until(async () => (await page.locator('#connection').innerText()) !== clock, 50)
    await shows('connection', 'Live')
  })

  test('says nothing to a screen reader while only numbers change', async () => {
    const { http, managementUrl } = await openManagedApp({ limits: LIMITS })
    const { page, shows } = await openOperatorPage(managementUrl)
    await page.evaluate(
      `globalThis.said = [];
       new MutationObserver(changes => said.push(...changes.map(change =>
         change.target.textContent).filter(Boolean))).observe(document.body,
         { subtree: true, childList: true, characterData: true, attributes: false });
       globalThis.live = () => said.length;
       globalThis.spoken = [];
       for (const region of document.querySelectorAll('[role=status], [role=log], [role=alert], [aria-live]')) {
         new MutationObserver(() => spoken.push(region.id)).observe(region,
           { subtree: true, childList: true, characterData: true });
       }`,
    )
    for (let times = 1; times <= 3; times++) {
      await http.get('/users')
      await shows('tiles', `${times} in all`)
    }
    expect(await page.evaluate<number>('live()')).toBeGreaterThan(0)
    expect(await page.evaluate('spoken')).toEqual([])
  })

  test.each(
    (['light', 'dark'] as const).flatMap(scheme => [1280, 390].map(width => ({ scheme, width }))),
  )(
    'has no serious finding of axe in $scheme, $width pixels wide, and fits',
    async ({ scheme, width }) => {
      const { ops, http, managementUrl } = await openManagedApp({
        limits: {
          ...LIMITS,
          throttle: [
            ...LIMITS.throttle,
            { name: `a_long_name_without_spaces_${'x'.repeat(60)}`, limit: 9999, period: 60 },
          ],
        },
      })
      for (let times = 0; times < 5; times++) await http.get('/users/1')
      for (let host = 1; host <= 17; host++) await addBan(ops, `192.0.2.${host}`)
      const opened = await openOperatorPage(managementUrl)
      const { page, rowsOf, button, shows, notices, unexpected } = opened
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
      await until(async () => (await rowsOf('bans')).length > 0, 50)
      const fits = async () => {
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      }
      await button('Reload the file').click()
      await shows('reload-answer', 'Reloaded')
      expect(await findings(page)).toEqual([])
      await fits()
      await button('Add a ban…').click()
      await button('Add the ban').click()
      await shows('add-client-error', "can't be blank")
      expect(await findings(page)).toEqual([])
      await page.keyboard.press('Escape')
      await page.locator('#bans tbody button').first().click()
      expect(await findings(page)).toEqual([])
      await button('Lift the ban').click()
      await notices('Lifted the ban')
      expect(await findings(page)).toEqual([])
      await fits()
      await page.context().setOffline(true)
      await shows('connection', 'Unreachable')
      expect(await findings(page)).toEqual([])
      await fits()
      expect(unexpected()).toEqual([])
    },
  )

  test('fits a window of 320 pixels, with long clients and many checks', async () => {
    const { ops, managementUrl } = await openManagedApp({ limits: LIMITS })
    await addBan(ops, '2001:db8:1234:5600::')
    const { page, rowsOf, shows } = await openOperatorPage(managementUrl)
    await page.setViewportSize({ width: 320, height: 700 })
    await until(async () => (await rowsOf('bans')).length > 0, 50)
    const widthWithChecks = `
      for (const name of ['one', 'another', 'third']) {
        checks.append(Object.assign(checks.lastElementChild.cloneNode(true), { textContent: name + ' ok' }))
      }
      document.documentElement.scrollWidth`
    expect(await page.evaluate(widthWithChecks)).toBe(320)
    await page.context().setOffline(true)
    await shows('connection', 'Unreachable')
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320)
  })

  test('has no serious finding of axe while it asks for the token', async () => {
    const { managementUrl } = await openManagedApp({ env: { MANAGEMENT_TOKEN: TOKEN } })
    const { page } = await openOperatorPage(managementUrl, { isLocked: true })
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      expect(await findings(page)).toEqual([])
    }
  })
})

test('GET / and its files hold no data, and nothing is inline', async () => {
  const { ops, http } = await openManagedApp({ limits: LIMITS })
  await http
    .post('/users')
    .send({ user: { name: 'Ann', email: 'ann@example.com' } })
    .expect(201)
  await addBan(ops, CLIENT)
  const { headers, text } = await ops.get('/').set('Accept', 'text/html').expect(200)
  expect(headers['content-security-policy']).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
      "require-trusted-types-for 'script'; trusted-types 'none'",
  )
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script[^>]*>[^<]/i)
  const paths = Array.from(text.matchAll(/(?:src|href)="(assets\/[^"]+)"/g), ([, path]) => path)
  const sources = await Promise.all(
    paths.map(async path => {
      const answer = await ops.get(`/${path}`).expect(200)
      expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable')
      return answer.text ?? String(answer.body)
    }),
  )
  for (const source of [text, ...sources]) {
    for (const datum of [CLIENT, 'ann@example.com', 'probing', 'few reads', TOKEN]) {
      expect(source).not.toContain(datum)
    }
  }
})

test('the licence of uPlot is beside its files', async () => {
  const { ops } = await openManagedApp()
  const { text } = await ops.get('/').expect(200)
  const folder = /assets\/[0-9a-f]{16}/.exec(text)?.[0]
  const licence = await ops.get(`/${folder}/LICENSE`).expect(200)
  const file = createRequire(import.meta.url).resolve('uplot/package.json')
  expect(licence.text).toBe(readFileSync(file.replace('package.json', 'LICENSE'), 'utf8'))
})
