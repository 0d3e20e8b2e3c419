import { writeFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { ServiceStatus } from '../../src/ops/management/service-status.ts'
import { newUserBody } from '../support/builders.ts'
import { type ManagedApp, openManagedApp, TOKEN } from '../support/management-requests.ts'
import { findSerious, LOOKS } from '../support/open-browser.ts'
import { focused, type OperatorPage, openOperatorPage, tabTo } from '../support/operator-page.ts'
import { canOpenPages } from '../support/programs.ts'
import { until } from '../support/until.ts'

const CLIENT = '203.0.113.77'
const OTHER = '198.51.100.8'

const LIMITS = {
  throttle: [
    { name: 'few reads', method: 'GET', path: '/users/*', limit: 3, period: '1 hour' },
    { name: 'a try', method: 'GET', limit: 2, period: '1 hour', dryRun: true },
    { name: `a_long_name_without_spaces_${'x'.repeat(60)}`, limit: 9999, period: 60 },
  ],
  bans: [
    { name: 'login', path: '/login', maxretry: 5, findtime: '1 minute', bantime: '1 hour' },
    { name: 'probing', path: '/wp-*', maxretry: 3, findtime: '10 minutes', bantime: '2 hours' },
  ],
}

interface Opened extends ManagedApp, OperatorPage {}

/** A service with limits and bans of these clients, and its page. */
async function openWithBans(clients: readonly string[] = []): Promise<Opened> {
  const app = await openManagedApp({ limits: LIMITS })
  for (const client of clients) {
    const ban = { rule: 'login', client, for: '1 hour' }
    await app.ops.post('/bans').send({ ban }).expect(201)
  }
  return { ...app, ...(await openOperatorPage(app.managementUrl)) }
}

const hosts = (count: number) => Array.from({ length: count }, (_, index) => `192.0.2.${index + 1}`)

async function clientsBanned({ ops }: ManagedApp): Promise<readonly string[]> {
  const { body } = await ops.get('/bans').expect(200)
  return (body as readonly { client: string }[]).map(({ client }) => client)
}

const widthOf = (page: Page) => page.evaluate('document.documentElement.scrollWidth')

/** Answers the requests of the page for the status with something else. */
function answerStatus(page: Page, change: (status: ServiceStatus) => object) {
  return page.route('**/status*', async route => {
    const response = await route.fetch()
    await route.fulfill({ response, json: change(await response.json()) })
  })
}

describe.skipIf(!canOpenPages)('GET / in a browser', () => {
  test('shows what GET /status says', async () => {
    const { ops, http, textOf, shows, rowsOf, unexpected, page } = await openWithBans([CLIENT])
    await http.post('/users').send(newUserBody()).expect(201)
    for (let times = 0; times < 5; times++) await http.get('/users/1')
    await http.get('/nowhere').expect(404)
    await shows('tiles', '7 in all')
    const { version, limits, requests, ...status }: ServiceStatus = (await ops.get('/status')).body
    expect(await textOf('version')).toBe(version)
    expect(await textOf('readiness')).toBe('Ready')
    expect(await textOf('checks')).toBe('service ok storage ok limits ok')
    expect(await rowsOf('limits')).toEqual(
      limits.rules.map(({ type, rule, dryRun, ...counts }) => [
        `${rule}${type}${dryRun ? 'dry run' : ''}`,
        ...[counts.counted, counts.passed, counts.refused, counts.would_refuse].map(String),
        expect.any(String),
      ]),
    )
    const refusals = limits.rules.map(({ refused, would_refuse }) => [refused, would_refuse])
    expect(refusals).toEqual(
      expect.arrayContaining([
        [2, 0],
        [0, expect.any(Number)],
      ]),
    )
    expect(await rowsOf('bans')).toEqual([[CLIENT, 'login', expect.stringMatching(/min/), 'Lift']])
    expect(await rowsOf('routes')).toEqual(
      requests.by_route.map(({ method, route, count, by_status }) => {
        const refused = Object.entries(by_status).filter(([key]) => key.startsWith('4'))
        return [
          `${method} ${route === '' ? 'no route' : route}`,
          ...[String(count), expect.any(String), expect.any(String)],
          ...[String(refused.reduce((sum, [, n]) => sum + n, 0)), '0'],
        ]
      }),
    )
    expect(await textOf('process')).toContain(`PID ${status.process.pid}`)
    expect(await textOf('database-note')).toBe('SQLite')
    expect(await textOf('database')).toContain(`Commits in all ${status.storage.commits.count}`)
    const plot = page.locator('.plot').first()
    await until(async () => /2xx/.test((await plot.getAttribute('aria-label')) ?? ''), 50)
    expect(unexpected()).toEqual([])
  })

  test('adds, finds and lifts a ban by mouse', async () => {
    const opened = await openWithBans([OTHER])
    const { page, rowsOf, hasRows, button, notices, shows, unexpected } = opened
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
    expect((await clientsBanned(opened)).toSorted()).toEqual([CLIENT, OTHER].toSorted())

    await page.locator('#ban-client').fill(CLIENT)
    await button('Find').click()
    await hasRows('bans', 1)
    expect((await rowsOf('bans'))[0]?.slice(0, 2)).toEqual([CLIENT, 'probing'])

    const lift = button(`Lift the ban of ${CLIENT} by probing`)
    await lift.click()
    await shows('lift-facts', `Client ${CLIENT} Rule probing`)
    await button('Cancel').click()
    expect(await focused(page)).toBe(`Lift the ban of ${CLIENT} by probing`)
    expect(await clientsBanned(opened)).toHaveLength(2)
    await lift.click()
    await button('Lift the ban').click()
    await notices(`Lifted the ban of ${CLIENT} by probing.`)
    expect(await clientsBanned(opened)).toEqual([OTHER])
    expect(unexpected()).toEqual([])
  })

  test('adds and lifts a ban by keyboard only, and the focus is never lost', async () => {
    const opened = await openWithBans()
    const { page, hasRows, notices, unexpected } = opened
    const { keyboard } = page
    await tabTo(page, 'add-ban')
    await keyboard.press('Enter')
    expect(await focused(page)).toBe('add-client')
    await keyboard.press('Escape')
    await page.locator('dialog').waitFor({ state: 'detached' })
    expect(await focused(page)).toBe('add-ban')
    await keyboard.press('Space')
    await keyboard.type(CLIENT)
    await keyboard.press('Enter')
    await notices(`${CLIENT} is banned by login`)
    expect(await focused(page)).toBe('add-ban')
    await hasRows('bans', 1)
    await tabTo(page, `Lift the ban of ${CLIENT} by login`)
    await keyboard.press('Enter')
    await tabTo(page, 'Lift the ban')
    await keyboard.press('Enter')
    await notices(`Lifted the ban of ${CLIENT} by login.`)
    expect(await focused(page)).toBe('add-ban')
    expect(await clientsBanned(opened)).toEqual([])
    expect(unexpected()).toEqual([])
  })

  test('shows bans by pages, and keeps the focus while it fetches them again', async () => {
    const opened = await openWithBans(hosts(20))
    const { ops, page, rowsOf, hasRows, button, shows, unexpected } = opened
    const clientsShown = async () => (await rowsOf('bans')).map(([client]) => client)
    await shows('bans-note', '20 in force')
    await hasRows('bans', 15)
    const first = await clientsShown()
    await button('Next').click()
    await hasRows('bans', 5)
    await shows('ban-page', 'Page 2')
    expect(new Set([...first, ...(await clientsShown())]).size).toBe(20)
    await page.locator('#bans tbody button').last().focus()
    const name = await focused(page)
    await ops.delete('/bans?client=192.0.2.1').expect(200)
    await shows('bans-note', '19 in force')
    expect(await focused(page)).toBe(name)
    await button('Previous').click()
    await hasRows('bans', 15)
    expect(await clientsShown()).not.toContain('192.0.2.1')
    expect(unexpected()).toEqual([])
  })

  test('puts the limits file in force again, and shows what changed or is wrong', async () => {
    const { limitsPath, page, button, shows, rowsOf, unexpected } = await openWithBans()
    const reload = async (limits: object, answer: string | RegExp) => {
      writeFileSync(limitsPath, JSON.stringify(limits))
      await button('Reload the file').click()
      await shows('reload-answer', answer)
    }
    await reload(LIMITS, 'Reloaded. No rule differs.')
    const throttle = [...LIMITS.throttle.slice(1), { name: 'new', limit: 9, period: 60 }]
    const changes = /^Reloaded\. new: throttle "new" gone: throttle "few reads"/
    await reload({ ...LIMITS, throttle }, changes)
    await until(async () => (await rowsOf('limits')).some(([name]) => name === 'newthrottle'), 50)
    await reload({ throttle: [{ limit: 0, period: 60 }], nonsense: 1 }, 'nonsense')
    expect(await page.locator('#reload-answer li').count()).toBe(2)
    expect(unexpected()).toEqual([])
  })

  test('asks for the token, keeps it for the tab, and forgets it', async () => {
    const { managementUrl } = await openManagedApp({ env: { MANAGEMENT_TOKEN: TOKEN } })
    const opened = await openOperatorPage(managementUrl, { isLocked: true })
    const { page, shows, button, textOf, unexpected } = opened
    expect(await findSerious(page)).toEqual([])
    expect(await textOf('readiness')).toBe('Locked')
    const enter = async (token: string) => {
      await page.keyboard.type(token)
      await page.keyboard.press('Enter')
    }
    await enter('not-the-token-of-the-port')
    await shows('token-error', 'does not accept')
    expect(await focused(page)).toBe('token')
    await enter(TOKEN)
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
    await enter(TOKEN)
    await shows('connection', 'Live')
    expect(unexpected()).toEqual([])
  })

  test('says since when the service cannot be reached, keeps its data, and goes on by itself', async () => {
    const { http, page, shows, notices, textOf, rowsOf, unexpected } = await openWithBans()
    await http.get('/users').expect(200)
    await shows('tiles', '1 in all')
    await page.context().setOffline(true)
    await shows('connection', /^Unreachable since \d\d:\d\d:\d\d \(\d+ s\)\. Trying again…$/)
    expect(await textOf('readiness')).toBe('Unreachable')
    await shows('announcements', 'Unreachable since')
    expect(await page.title()).toMatch(/^Unreachable/)
    expect(await textOf('tiles')).toContain('1 in all')
    expect((await rowsOf('limits')).length).toBe(5)
    await http.get('/users').expect(200)
    await page.context().setOffline(false)
    await shows('connection', 'Live')
    await notices('The service answers again.')
    await shows('tiles', '2 in all')
    await shows('announcements', 'The service is ready.')
    expect(unexpected()).toEqual([])
  })

  test('goes on after an answer that is no status, and says that the service was restarted', async () => {
    const { http, page, shows, notices, textOf } = await openWithBans()
    await http.get('/users').expect(200)
    await shows('tiles', '1 in all')
    let answers = 0
    // Such as that of a proxy.
    await answerStatus(page, () => ({ answers: ++answers }))
    await until(() => answers > 1, 50)
    await shows('connection', 'No status in the answer since')
    expect(await textOf('tiles')).toContain('1 in all')
    await page.unroute('**/status*')
    await http.get('/users').expect(200)
    await shows('tiles', '2 in all')

    const before = await textOf('process')
    const startedAt = new Date().toISOString()
    await answerStatus(page, ({ requests, process, ...status }) => ({
      ...status,
      started_at: startedAt,
      requests: { ...requests, total: 0 },
      process: { ...process, pid: 4711 },
    }))
    await notices(/The service was restarted at \d\d:\d\d:\d\d\./)
    await shows('tiles', '0 in all')
    expect(before).not.toContain('PID 4711')
    await shows('process', 'PID 4711')
    expect(await textOf('readiness')).toBe('Ready')
  })

  test('a service without rules says so, and lines of a chart differ by more than their color', async () => {
    const { managementUrl } = await openManagedApp()
    const { page, shows, unexpected } = await openOperatorPage(managementUrl)
    await shows('tiles', 'no rules')
    await shows('limits', 'No rules: no request is limited.')
    expect(await page.locator('#add-ban').isDisabled()).toBe(true)
    const styles = await page.evaluate<string[]>(
      `[...document.querySelectorAll('.chart:nth-of-type(2) .swatch')]
         .map(swatch => getComputedStyle(swatch).borderTopStyle)`,
    )
    expect(new Set(styles).size).toBe(3)
    expect(unexpected()).toEqual([])
  })

  test('on a phone limits and bans come before the small charts', async () => {
    const { page } = await openWithBans()
    await page.setViewportSize({ width: 390, height: 900 })
    const parts = ['.chart', '.limits', '.bans', '.chart:nth-of-type(3)', '.routes', '.database']
    const tops = await page.evaluate<number[]>(
      `${JSON.stringify(parts)}.map(part => document.querySelector(part).getBoundingClientRect().top)`,
    )
    expect(tops).toEqual(tops.toSorted((one, other) => one - other))
  })

  test('does not fetch while nobody sees it', async () => {
    const { page, shows } = await openWithBans()
    await page.clock.install()
    await page.reload()
    await shows('connection', 'Live')
    const setHidden = (isHidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} });
         document.dispatchEvent(new Event('visibilitychange'))`,
      )
    await page.evaluate(
      `globalThis.asked = 0;
       const ask = globalThis.fetch;
       globalThis.fetch = (...call) => { asked++; return ask(...call) }`,
    )
    const asked = () => page.evaluate<number>('asked')
    await setHidden(true)
    // What was asked for before may go on to its end.
    await until(async () => {
      const before = await asked()
      await page.clock.runFor('01:00')
      return (await asked()) === before
    }, 50)
    const before = await asked()
    for (let minutes = 0; minutes < 5; minutes++) await page.clock.runFor('01:00')
    expect(await asked()).toBe(before)
    await setHidden(false)
    await until(async () => (await asked()) > before, 50)
    await shows('connection', 'Live')
  })

  test('says nothing to a screen reader while only numbers change', async () => {
    const { http, page, shows } = await openWithBans()
    await page.evaluate(
      `globalThis.changed = 0;
       globalThis.spoken = [];
       const watch = (element, onChange) => new MutationObserver(onChange).observe(element,
         { subtree: true, childList: true, characterData: true });
       watch(document.body, changes => { changed += changes.length });
       for (const region of document.querySelectorAll('[role=status], [role=log], [role=alert], [aria-live]')) {
         watch(region, () => spoken.push(region.id));
       }`,
    )
    for (let times = 1; times <= 3; times++) {
      await http.get('/users')
      await shows('tiles', `${times} in all`)
    }
    expect(await page.evaluate<number>('changed')).toBeGreaterThan(0)
    expect(await page.evaluate('spoken')).toEqual([])
  })

  test('has no serious finding of axe in any look, and fits', async () => {
    const opened = await openWithBans([...hosts(16), '2001:db8:1234:5600::'])
    const { http, page, hasRows, button, shows, notices, unexpected } = opened
    for (let times = 0; times < 5; times++) await http.get('/users/1')
    await page.emulateMedia({ reducedMotion: 'reduce' })
    await hasRows('bans', 15)
    await button('Reload the file').click()
    await shows('reload-answer', 'Reloaded')
    const inEachLook = async (looks = LOOKS, isDialog = false) => {
      for (const { scheme, width } of looks) {
        await page.setViewportSize({ width, height: 900 })
        await page.emulateMedia({ colorScheme: scheme })
        expect([scheme, width, await findSerious(page)]).toEqual([scheme, width, []])
        if (!isDialog) expect(await widthOf(page)).toBe(width)
      }
    }
    await inEachLook()
    const [, lightAndNarrow, darkAndWide] = LOOKS
    const some = [lightAndNarrow, darkAndWide].flatMap(look => look ?? [])
    await button('Add a ban…').click()
    await button('Add the ban').click()
    await shows('add-client-error', "can't be blank")
    await inEachLook(some, true)
    await page.keyboard.press('Escape')
    await page.locator('#bans tbody button').first().click()
    await inEachLook(some, true)
    await button('Lift the ban').click()
    await notices('Lifted the ban')
    await page.context().setOffline(true)
    await shows('connection', 'Unreachable')
    await inEachLook(some)
    await page.setViewportSize({ width: 320, height: 700 })
    await page.evaluate(
      `for (const name of ['one', 'another', 'third']) {
         checks.append(Object.assign(checks.lastElementChild.cloneNode(true), { textContent: name + ' ok' }))
       }`,
    )
    expect(await widthOf(page)).toBe(320)
    expect(unexpected()).toEqual([])
  })
})
