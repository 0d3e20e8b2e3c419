import { writeFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { ServiceStatus } from '../../src/ops/management/service-status.ts'
import { newUserBody } from '../support/builders.ts'
import { type ManagedApp, openManagedApp, TOKEN } from '../support/management-requests.ts'
import { expectReadable, findSerious, LOOKS } from '../support/open-browser.ts'
import { focused, type OperatorPage, openOperatorPage, tabTo } from '../support/operator-page.ts'
import { canOpenPages } from '../support/programs.ts'
import { until } from '../support/until.ts'
import { addWebhook } from '../support/webhook-receiver.ts'

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

/** The colors of lines that have a contrast of less than 3:1 with their panel (WCAG 2.2, 1.4.11). */
const findFaintLines = (page: Page) =>
  page.evaluate<string[]>(
    `(() => {
       const luminanceOf = color => {
         const [red, green, blue] = color.match(/\\d+/g).map(value => value / 255)
           .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
         return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
       };
       const panel = luminanceOf(getComputedStyle(document.querySelector('.chart')).backgroundColor);
       return [...document.querySelectorAll('.chart tr + tr .u-marker')]
         .map(marker => getComputedStyle(marker).borderTopColor)
         .filter(color => {
           const line = luminanceOf(color);
           return (Math.max(line, panel) + 0.05) / (Math.min(line, panel) + 0.05) < 3;
         });
     })()`,
  )

/** What is in a table or a form and stands out of its panel, unless one scrolls down to it. */
const findCut = (page: Page) =>
  page.evaluate<string[]>(
    `[...document.querySelectorAll('.panel')].flatMap(panel => {
       const inner = panel.getBoundingClientRect();
       return [...panel.querySelectorAll('th, td, dd, button, input, select')].filter(part => {
         const { left, right, bottom, width } = part.getBoundingClientRect();
         const isBelow = bottom > inner.bottom && part.closest('.scroller') === null;
         return width > 0 && (left < inner.left || right > inner.right || isBelow);
       });
     }).map(part => part.outerHTML)`,
  )

const widthOf = (page: Page) => page.evaluate('document.documentElement.scrollWidth')

/** Answers the requests of the page for the status with something else. */
function answerStatus(page: Page, change: (status: ServiceStatus) => object) {
  return page.route('**/status*', async route => {
    const response = await route.fetch()
    const json = change(await response.json())
    // The page may have left meanwhile.
    await route.fulfill({ response, json }).catch(() => undefined)
  })
}

describe.skipIf(!canOpenPages)('GET / in a browser', () => {
  test('shows what GET /status says', async () => {
    const { ops, http, textOf, shows, rowsOf, page } = await openWithBans([CLIENT])
    await http.post('/users').send(newUserBody()).expect(201)
    for (let times = 0; times < 5; times++) await http.get('/users/1')
    await http.get('/nowhere').expect(404)
    await shows('tiles', '7 in all')
    const { version, limits, requests, ...status }: ServiceStatus = (await ops.get('/status')).body
    expect(await textOf('version')).toBe(version)
    expect(await textOf('readiness')).toBe('Ready')
    expect(await textOf('checks')).toBe('service ok · storage ok · limits ok')
    expect(await rowsOf('limits')).toEqual(
      limits.rules.map(({ type, rule, dryRun, ...counts }) => [
        `${rule} ${type}${dryRun ? ', dry run' : ''}`,
        ...[counts.counted, counts.passed, counts.refused, counts.would_refuse].map(String),
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
    // Bans are kept in the database.
    expect(await textOf('tiles')).toMatch(/ Bans 1 refused: \d+ Users 1 in the database$/)
    expect(await textOf('limits-note')).toBe('counted in memory')
    expect(await textOf('process')).toContain(`PID ${status.process.pid}`)
    expect(await textOf('database-note')).toBe('SQLite')
    expect(await textOf('database')).toContain(`Commits in all ${status.storage.commits.count}`)
    const plot = page.locator('.plot').first()
    await until(async () => /2xx/.test((await plot.getAttribute('aria-label')) ?? ''), 50)
  })

  test('adds, finds and lifts a ban by mouse', async () => {
    const opened = await openWithBans([OTHER])
    const { page, rowsOf, hasRows, button, shows, answerQuestions } = opened
    await page.locator('#ban-for').fill('soon')
    await button('Add the ban').click()
    await shows('ban-error', "Client can't be blank")
    await expect.poll(() => focused(page)).toBe('ban-client')
    await page.locator('#ban-client').fill(CLIENT)
    await button('Add the ban').click()
    await shows('ban-error', 'For must be a time')
    await expect.poll(() => focused(page)).toBe('ban-for')
    await page.locator('#ban-client').fill(OTHER)
    await page.locator('#ban-client').press('Enter')
    await hasRows('bans', 1)
    expect(await page.locator('#ban-error').textContent()).toBe('')
    await page.locator('#ban-client').fill(CLIENT)
    await page.locator('#ban-rule').selectOption('probing')
    await page.locator('#ban-for').fill('30 minutes')
    await button('Add the ban').click()
    await shows('message', `${CLIENT} is banned by probing`)
    await hasRows('bans', 2)
    expect((await clientsBanned(opened)).toSorted()).toEqual([CLIENT, OTHER].toSorted())

    await button('Find').click()
    await hasRows('bans', 1)
    expect((await rowsOf('bans'))[0]?.slice(0, 2)).toEqual([CLIENT, 'probing'])

    const questions = answerQuestions(1)
    const lift = button(`Lift the ban of ${CLIENT} by probing`)
    await lift.click()
    await expect.poll(() => focused(page)).toBe(`Lift the ban of ${CLIENT} by probing`)
    expect(await clientsBanned(opened)).toHaveLength(2)
    await lift.click()
    await shows('message', `Lifted the ban of ${CLIENT} by probing.`)
    expect(questions).toEqual(Array(2).fill(`Lift the ban of ${CLIENT} by probing?`))
    expect(await clientsBanned(opened)).toEqual([OTHER])
    await shows('bans', `No ban of ${CLIENT} in force.`)
  })

  test('adds and lifts a ban by keyboard only, and the focus is never lost', async () => {
    const opened = await openWithBans()
    const { page, hasRows, shows, answerQuestions } = opened
    const { keyboard } = page
    answerQuestions()
    await tabTo(page, 'ban-client')
    await keyboard.type(CLIENT)
    await tabTo(page, 'add-ban')
    await keyboard.press('Enter')
    await shows('message', `${CLIENT} is banned by login`)
    await expect.poll(() => focused(page)).toBe('add-ban')
    await hasRows('bans', 1)
    await tabTo(page, `Lift the ban of ${CLIENT} by login`)
    await keyboard.press('Enter')
    await shows('message', `Lifted the ban of ${CLIENT} by login.`)
    await expect.poll(() => focused(page)).toBe('ban-client')
    expect(await clientsBanned(opened)).toEqual([])
    await tabTo(page, 'ban-for')
    await keyboard.type('5 minutes')
    await keyboard.press('Enter')
    await shows('message', `${CLIENT} is banned by login`)
    await expect.poll(() => focused(page)).toBe('ban-for')
    expect(await clientsBanned(opened)).toEqual([CLIENT])
  })

  test('says why there is no list of bans, and takes a lifted ban out without a new list', async () => {
    const opened = await openWithBans([CLIENT])
    const { ops, page, textOf, hasRows, button, shows } = opened
    opened.answerQuestions()
    await hasRows('bans', 1)
    const lists = /\/bans\?per_page=/
    await page.route(lists, () => {})
    await button(`Lift the ban of ${CLIENT} by login`).click()
    await shows('message', `Lifted the ban of ${CLIENT} by login.`)
    expect(await textOf('bans')).toBe('No bans in force.')
    await page.unroute(lists)
    await page.route(lists, route => route.abort())
    await page.locator('#ban-client').fill(OTHER)
    await button('Find').click()
    await shows('bans', /^The service cannot be reached\.$/)
    await page.unroute(lists)
    const ban = { rule: 'login', client: OTHER }
    await ops.post('/bans').send({ ban }).expect(201)
    await hasRows('bans', 1)
  })

  test('names who was refused most by each rule, and the newest errors, whose ids are copied', async () => {
    const { http, page, hasRows, rowsOf, shows } = await openWithBans()
    const send = (id: string, path: string) => http.get(path).set('X-Request-Id', id)
    for (let times = 0; times < 5; times++) await send(`read-${times}`, '/users/7')
    await send('odd', '/users?q=')
    await hasRows('errors', 6)
    await hasRows('refused', 1)
    expect(await rowsOf('refused')).toEqual([['127.0.0.1', 'few reads throttle', '2']])
    // Connections of one moment may end in another order than their requests.
    const errors = (await rowsOf('errors')).map(([answer, request, , id = '']) => [
      id,
      answer,
      request,
    ])
    expect(errors.toSorted()).toEqual([
      ['odd', '400 query_invalid', 'GET /users'],
      ...[0, 1, 2].map(each => [`read-${each}`, '404 user_not_found', 'GET /users/{id}']),
      ...[3, 4].map(each => [`read-${each}`, '429 rate_limited', 'GET /users/{id}']),
    ])
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'odd' }).click()
    await shows('message', 'Copied odd')
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe('odd')
    await answerStatus(page, ({ errors: [first], ...status }) => {
      const fault = { ...first, status: 500, reason: 'internal_error' }
      return { ...status, errors: [first, fault] }
    })
    await hasRows('errors', 2)
    expect((await rowsOf('errors')).map(([answer]) => answer)).toEqual([
      '500 internal_error',
      '400 query_invalid',
    ])
  })

  test('lists bans by the numbers of their addresses, and finds those of a part with one request', async () => {
    const v4 = ['10.0.0.9', '10.0.0.10', '10.0.0.100', '198.51.100.7']
    const v6 = ['2001:db8::/56', '2001:db8:0:100::/56', '2001:db8:a::/56', '2001:db8:10::/56']
    const opened = await openWithBans([...v4, ...v6].toSorted())
    const { page, rowsOf, hasRows, shows, textOf } = opened
    const clients = async () => (await rowsOf('bans')).map(([client]) => client)
    await hasRows('bans', 8)
    expect(await clients()).toEqual([...v4, ...v6])
    const asked: string[] = []
    page.on('request', request => {
      if (request.url().includes('contains')) asked.push(request.url())
    })
    await page.locator('#ban-client').pressSequentially('10.0.0')
    await page.keyboard.press('Enter')
    await hasRows('bans', 3)
    expect(await clients()).toEqual(v4.slice(0, 3))
    expect(await textOf('bans-note')).toBe('8 in force, 3 shown')
    expect(asked.length).toBeLessThan(5)
    await page.locator('#ban-client').fill('2001:DB8:0:1ff::7')
    await page.keyboard.press('Enter')
    await hasRows('bans', 1)
    expect(await clients()).toEqual(['2001:db8:0:100::/56'])
    await page.locator('#ban-client').fill('nobody')
    await page.keyboard.press('Enter')
    await shows('bans', 'No ban of nobody in force.')
  })

  test('lifts all bans of a rule behind a question, also of one that is gone', async () => {
    const opened = await openWithBans([CLIENT, OTHER])
    const { ops, limitsPath, page, button, hasRows, shows } = opened
    const other = { rule: 'probing', client: CLIENT }
    await ops.post('/bans').send({ ban: other }).expect(201)
    await hasRows('bans', 3)
    const [, probing] = LIMITS.bans
    writeFileSync(limitsPath, JSON.stringify({ ...LIMITS, bans: [probing] }))
    await button('Reload the file').click()
    await shows('reload-answer', 'gone: bans "login"')
    const questions = opened.answerQuestions(1)
    const liftAll = () => button('Lift all of the rule').click()
    await page.locator('#ban-rule').selectOption({ label: 'login (no rule any more)' })
    await liftAll()
    expect(await clientsBanned(opened)).toHaveLength(3)
    await liftAll()
    await shows('message', 'Lifted all bans by login: 2.')
    expect(questions).toEqual(Array(2).fill('Lift all bans by login?'))
    await hasRows('bans', 1)
    expect(await clientsBanned(opened)).toEqual([CLIENT])
  })

  test('shows the first 100 bans, finds others, and keeps the focus while it fetches them again', async () => {
    const opened = await openWithBans(hosts(101))
    const { ops, page, rowsOf, hasRows, button, shows } = opened
    await shows('bans-note', '101 in force, 100 shown')
    await hasRows('bans', 100)
    const shown = (await rowsOf('bans')).map(([client]) => client)
    const other = hosts(101).find(client => !shown.includes(client)) ?? ''
    await page.locator('#ban-client').fill(other)
    await page.keyboard.press('Enter')
    await hasRows('bans', 1)
    expect((await rowsOf('bans'))[0]?.[0]).toBe(other)
    await page.locator('#ban-client').fill('')
    await button('Find').click()
    await hasRows('bans', 100)
    // On a phone they leave the panels below in reach.
    await page.setViewportSize({ width: 390, height: 900 })
    expect((await page.locator('#bans').boundingBox())?.height).toBeLessThan(600)
    await page.locator('#bans tbody button').last().focus()
    const name = await focused(page)
    await ops.delete(`/bans?client=${shown[0]}`).expect(200)
    await shows('bans-note', '100 in force')
    await expect.poll(() => focused(page)).toBe(name)
    await until(async () => (await rowsOf('bans')).every(([client]) => client !== shown[0]), 50)
  })

  test('puts the limits file in force again, and shows what changed or is wrong', async () => {
    const { limitsPath, page, button, shows, rowsOf } = await openWithBans()
    const reload = async (limits: object, answer: string | RegExp) => {
      writeFileSync(limitsPath, JSON.stringify(limits))
      await button('Reload the file').click()
      await shows('reload-answer', answer)
    }
    await reload(LIMITS, 'Reloaded. No rule differs.')
    const throttle = [...LIMITS.throttle.slice(1), { name: 'new', limit: 9, period: 60 }]
    const changes = /^Reloaded\. new: throttle "new" gone: throttle "few reads"/
    await reload({ ...LIMITS, throttle }, changes)
    await until(async () => (await rowsOf('limits')).some(([name]) => name === 'new throttle'), 50)
    await reload({ throttle: [{ limit: 0, period: 60 }], nonsense: 1 }, 'nonsense')
    expect(await page.locator('#reload-answer p').count()).toBe(2)
  })

  test('asks for the token, keeps it for the tab, and forgets it', async () => {
    const { managementUrl } = await openManagedApp({ env: { MANAGEMENT_TOKEN: TOKEN } })
    const opened = await openOperatorPage(managementUrl, { isLocked: true })
    const { page, shows, button, textOf } = opened
    expect(await findSerious(page)).toEqual([])
    expect(await textOf('readiness')).toBe('Locked')
    expect(await page.locator('.chart, .panel').count()).toBe(0)
    await expect.poll(() => focused(page)).toBe('token')
    const enter = async (token: string) => {
      await page.keyboard.type(token)
      await page.keyboard.press('Enter')
    }
    await enter('not-the-token-of-the-port')
    await shows('token-error', 'does not accept')
    await expect.poll(() => focused(page)).toBe('token')
    // Nothing is asked for without a token, also when the page is looked at again.
    const asked = await page.evaluate(
      `(() => {
         let asked = 0;
         const ask = globalThis.fetch;
         globalThis.fetch = (...call) => { asked++; return ask(...call) };
         document.dispatchEvent(new Event('visibilitychange'));
         globalThis.fetch = ask;
         return asked;
       })()`,
    )
    expect(asked).toBe(0)
    // Announced again, although it is the same text.
    await page.evaluate(`globalThis.said = document.querySelector('#token-error').firstChild`)
    await enter('not-the-token-of-the-port')
    await until(() => page.evaluate('!said.isConnected'), 50)
    await shows('token-error', 'does not accept')
    await enter(TOKEN)
    await shows('connection', 'Live')
    await expect.poll(() => focused(page)).toBe('Forget the token')
    expect(await page.evaluate('JSON.stringify([...Object.entries(localStorage)])')).toBe('[]')
    expect(await page.content()).not.toContain(TOKEN)
    expect(page.url()).not.toContain(TOKEN)
    await page.reload()
    await shows('connection', 'Live')
    await button('Forget the token').click()
    await page.locator('#token').waitFor()
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    expect(await textOf('token-error')).toBe('')
    expect(await page.locator('.panel').count()).toBe(0)
    await enter(TOKEN)
    await shows('connection', 'Live')
  })

  test('a legend shows the newest values, or those at the pointer', async () => {
    const { page, shows } = await openWithBans()
    let p99_ms = 700
    await answerStatus(page, ({ history, ...status }) => {
      const samples = history.samples.map(sample => ({ ...sample, p99_ms }))
      return { ...status, history: { ...history, samples } }
    })
    const latency = page.locator('.chart:nth-of-type(2)')
    const legend = () => latency.locator('.u-legend').innerText()
    const showNext = async () => {
      p99_ms++
      await shows('tiles', `p99 ${p99_ms} ms`)
    }
    for (let times = 0; times < 2; times++) {
      await showNext()
      expect(await legend()).toContain(`${p99_ms}\u00a0ms`)
    }
    await latency.locator('.u-over').hover({ position: { x: 5, y: 5 } })
    await showNext()
    expect(await legend()).not.toContain(`${p99_ms}\u00a0ms`)
    await page.mouse.move(0, 0)
    await until(async () => (await legend()).includes(`${p99_ms}\u00a0ms`), 50)
  })

  test('says since when the service cannot be reached, keeps its data, and goes on by itself', async () => {
    const { http, page, shows, textOf, rowsOf } = await openWithBans()
    await http.get('/users').expect(200)
    await shows('tiles', '1 in all')
    await page.context().setOffline(true)
    await shows('connection', /^since \d\d:\d\d:\d\d\. Trying again…$/)
    // Announced to a screen reader.
    expect(await page.locator('#readiness[role=status]').innerText()).toBe('Unreachable')
    expect(await page.title()).toMatch(/^Unreachable/)
    expect(await textOf('tiles')).toContain('1 in all')
    expect((await rowsOf('limits')).length).toBe(5)
    await http.get('/users').expect(200)
    await page.context().setOffline(false)
    await shows('connection', 'Live')
    await shows('message', 'The service answers again.')
    await shows('tiles', '2 in all')
    expect(await textOf('readiness')).toBe('Ready')
  })

  test('goes on after an answer that is no status, and says that the service was restarted', async () => {
    const { http, page, shows, textOf } = await openWithBans()
    await http.get('/users').expect(200)
    await shows('tiles', '1 in all')
    let answers = 0
    // Such as that of a proxy.
    await answerStatus(page, () => ({ answers: ++answers }))
    await until(() => answers > 1, 50)
    await shows('readiness', 'No status in the answer')
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
    await shows('message', /The service was restarted at \d\d:\d\d:\d\d\./)
    await shows('tiles', '0 in all')
    expect(before).not.toContain('PID 4711')
    await shows('process', 'PID 4711')
    expect(await textOf('readiness')).toBe('Ready')
  })

  test('a service without rules says so, and lines of a chart differ by more than their color', async () => {
    const { managementUrl } = await openManagedApp()
    const { page, shows } = await openOperatorPage(managementUrl)
    await shows('tiles', 'no rules')
    await shows('limits', 'No rules: no request is limited.')
    expect(await page.locator('#add-ban').isDisabled()).toBe(true)
    const styles = await page.evaluate<string[]>(
      `[...document.querySelectorAll('.chart:nth-of-type(2) tr + tr .u-marker')]
         .map(marker => getComputedStyle(marker).borderTopStyle)`,
    )
    expect(new Set(styles).size).toBe(3)
  })

  test('shows the webhooks, only where there are some', async () => {
    const { managementUrl, databaseUrl, http } = await openManagedApp()
    const { page, rowsOf, hasRows, shows, textOf } = await openOperatorPage(managementUrl)
    expect(await page.locator('#webhooks-title').count()).toBe(0)
    const url = 'http://me:pass@127.0.0.1:9/hook?token=t0p'
    await addWebhook(databaseUrl, 'search', url)
    await hasRows('webhooks', 1)
    await http.post('/users').send(newUserBody()).expect(201)
    await shows('webhooks', 'ECONNREFUSED')
    expect(await rowsOf('webhooks')).toEqual([
      [
        ...['search', 'http://127.0.0.1:9/hook', 'failing'],
        ...[expect.stringMatching(/^\d+ s$/), expect.stringMatching(/^\d+ \w+ 20\d\d/)],
        expect.stringContaining('ECONNREFUSED'),
      ],
    ])
    expect(await textOf('webhooks')).not.toMatch(/t0p|pass/)
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
    const { http, page, hasRows, button, shows } = opened
    for (let times = 0; times < 5; times++) await http.get('/users/1')
    // Numbers as long as they get.
    await answerStatus(page, ({ limits, ...status }) => {
      const count = { counted: 1234567890, passed: 1234567890, refused: 27, would_refuse: 276 }
      const rules = limits.rules.map(rule => ({ ...rule, ...count }))
      const webhook = {
        ...{ name: 'search', url: `https://example.com/${'path/'.repeat(20)}`, state: 'failing' },
        ...{ behind_seconds: 999_999, failing_since: status.now },
        last_error: `connect ECONNREFUSED ${'x'.repeat(80)}`,
      }
      return { ...status, limits: { ...limits, rules }, webhooks: [webhook] }
    })
    await shows('limits', '1,234,567,890')
    await page.emulateMedia({ reducedMotion: 'reduce' })
    opened.answerQuestions()
    await hasRows('bans', 17)
    await button('Reload the file').click()
    await shows('reload-answer', 'Reloaded')
    const inEachLook = async (looks = LOOKS) => {
      for (const look of looks) {
        const { scheme, width } = look
        await expectReadable(page, look)
        expect([scheme, await findFaintLines(page)]).toEqual([scheme, []])
        expect(await widthOf(page)).toBe(width)
        if (width < 500) expect(await findCut(page)).toEqual([])
      }
    }
    await inEachLook()
    const [, lightAndNarrow, darkAndWide] = LOOKS
    const some = [lightAndNarrow, darkAndWide].flatMap(look => look ?? [])
    await button('Add the ban').click()
    await shows('ban-error', "can't be blank")
    await page.locator('#bans tbody button').first().click()
    await shows('message', 'Lifted the ban')
    await inEachLook(some)
    await page.unroute('**/status*')
    await page.context().setOffline(true)
    await shows('readiness', 'Unreachable')
    await inEachLook(some)
    await page.setViewportSize({ width: 320, height: 700 })
    expect(await widthOf(page)).toBe(320)
  })
})
