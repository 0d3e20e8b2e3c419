import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { BEARER, type ManagedApp, openManagedApp, TOKEN } from '../support/management-requests.ts'
import { expectReadable, LOOKS } from '../support/open-browser.ts'
import type { TestAppOptions } from '../support/open-test-app.ts'
import { focused, type OperatorPage, openOperatorPage, tabTo } from '../support/operator-page.ts'
import { copyPostgresTemplate } from '../support/postgres-databases.ts'
import { canOpenPages, canUsePostgres } from '../support/programs.ts'
import { until } from '../support/until.ts'

const SEARCH = 'Find users by words, address or id'
const ANN = newUserBody({ name: 'Ann', email: 'ann@example.com', password: 'correct horse' })
const BOB = newUserBody({ name: 'Bob', email: 'bob@example.com' })

interface Opened extends ManagedApp, OperatorPage {
  /** Resolves once this has the focus, by its name or id. */
  hasFocus(name: string): Promise<unknown>
}

/** The view of users, or one of them, once it shows how many there are. */
async function openUsers(options: TestAppOptions = {}, hash = '#users'): Promise<Opened> {
  const app = await openManagedApp({ users: [ANN, BOB], ...options })
  const isLocked = options.env?.MANAGEMENT_TOKEN !== undefined
  const opened = await openOperatorPage(app.managementUrl, { isLocked })
  if (isLocked) {
    await opened.page.locator('#token').fill(TOKEN)
    await opened.page.keyboard.press('Enter')
    await opened.shows('connection', 'Live')
  }
  await opened.page.goto(`${app.managementUrl}/${hash}`)
  await opened.shows('users-found', /user/)
  const hasFocus = (name: string) => until(async () => (await focused(opened.page)) === name, 50)
  return { ...app, ...opened, hasFocus }
}

/** The queries of lists that the page asks for from now on. */
function listQueries(page: Page): string[] {
  const queries: string[] = []
  page.on('request', request => {
    const { pathname, search } = new URL(request.url())
    if (pathname === '/users') queries.push(search)
  })
  return queries
}

/** Holds the next request of a page that fits until the function that this resolves to is called. */
async function holdNext(page: Page, method: string, url: RegExp): Promise<() => void> {
  let release = () => {}
  let isNext = true
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  await page.route(url, async route => {
    if (isNext && route.request().method() === method) {
      isNext = false
      await held
    }
    await route.continue()
  })
  return () => release()
}

const logIn = ({ http }: ManagedApp, password: string) =>
  http.post('/password-verifications').send({ user: { email: 'ann@example.com', password } })

describe.skipIf(!canOpenPages)('GET /#users in a browser', () => {
  test.each([
    { engine: 'SQLite', env: async () => ({}) },
    ...(canUsePostgres
      ? [
          {
            engine: 'PostgreSQL',
            env: async () => ({ DATABASE_URL: await copyPostgresTemplate() }),
          },
        ]
      : []),
  ])(
    'on $engine: finds Ann, corrects her name, sets her a password and deletes her, by keyboard alone',
    async ({ env }) => {
      const opened = await openUsers({ env: await env() })
      const { page, http, textOf, shows, hasFocus } = opened
      const { keyboard } = page
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
      await tabTo(page, SEARCH)
      await keyboard.type('ann@example.com')
      await shows('users-found', /^1 user$/)
      await tabTo(page, 'open-1')
      await keyboard.press('Enter')
      await hasFocus('user-title')
      await page.locator('#user-name').waitFor()
      await tabTo(page, 'user-name')
      await keyboard.press('Control+A')
      await keyboard.type('Ann Smith')
      await keyboard.press('Enter')
      await shows('message', 'Saved: Ann Smith (ann@example.com, id 1).')
      await until(async () => (await textOf('users')).includes('Ann Smith'), 50)

      await tabTo(page, 'Generate a password')
      await keyboard.press('Enter')
      await shows('user', 'Not saved yet:')
      const password = await page.locator('#user code').innerText()
      expect(password).toMatch(/^(?:[a-z2-9]{5}-){3}[a-z2-9]{5}$/)
      await logIn(opened, password).expect(422)
      await tabTo(page, 'Save')
      await keyboard.press('Enter')
      await shows('user', `The new password: ${password}`)
      await logIn(opened, password).expect(200)
      await tabTo(page, 'Copy and hide it')
      await keyboard.press('Enter')
      await hasFocus('user-title')
      expect(await page.content()).not.toContain(password)
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(password)

      const questions = opened.answerQuestions(2)
      for (const button of ['Remove the password…', 'Delete the user…']) {
        await tabTo(page, button)
        await keyboard.press('Enter')
        await expect.poll(() => focused(page)).toBe(button)
      }
      await keyboard.press('Enter')
      await shows('message', 'Deleted: Ann Smith (ann@example.com, id 1).')
      await hasFocus(SEARCH)
      const who = 'Ann Smith (ann@example.com, id 1)'
      const deletion = `Delete ${who}? This cannot be undone.`
      const removal = `Remove the password of ${who}? Nobody can log in with it any more.`
      expect(questions).toEqual([removal, deletion, deletion])
      await http.get('/users/1').expect(404)
      await shows('users-found', 'No user has the address ann@example.com.')
    },
  )

  test('deletes several after one question that says how many, and saves what a search finds as CSV', async () => {
    const cid = newUserBody({ name: '=Cid', email: 'cid@example.com' })
    const opened = await openUsers({ users: [ANN, BOB, cid] })
    const { page, shows, http, answerQuestions } = opened
    const questions = answerQuestions(1)
    await page.getByLabel('Choose Ann').check()
    await page.getByLabel('Choose Bob').check()
    const button = page.getByRole('button', { name: 'Delete 2 users' })
    await button.click()
    expect((await http.get('/users')).body).toHaveLength(3)
    await button.click()
    await shows('users-found', '1 user')
    expect(questions).toEqual(Array(2).fill('Delete 2 users? This cannot be undone.'))
    expect((await http.get('/users')).body).toMatchObject([{ name: '=Cid' }])

    await http.post('/users').send(ANN).expect(201)
    await shows('users-found', '2 users')
    await page.getByLabel(SEARCH).fill('cid')
    await shows('users-found', '1 user')
    const saving = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save as CSV' }).click()
    const download = await saving
    expect(download.suggestedFilename()).toBe('users.csv')
    const lines = readFileSync(await download.path(), 'utf8')
      .trim()
      .split('\r\n')
    expect(lines).toHaveLength(2)
    expect(lines[1]).toContain("'=Cid")
  })

  test('asks once when typing pauses, for words, an address or an id', async () => {
    const { page, shows, rowsOf } = await openUsers()
    await page.clock.install()
    await page.reload()
    await shows('users-found', '2 users')
    // A busy machine may take long for each letter.
    await page.clock.pauseAt(Date.now() + 1000)
    const queries = listQueries(page)
    const field = page.locator('#user-search')
    const type = async (text: string) => {
      queries.length = 0
      await field.fill('')
      for (const letter of text) {
        await field.press(letter)
        await page.clock.runFor(200)
      }
      expect(queries).toEqual([])
      await page.clock.runFor(200)
      await until(() => page.clock.runFor(20).then(() => queries.length > 0), 50)
      return queries
    }
    const rest = '?per_page=50&sort=-created_at'
    expect(await type('Ann')).toEqual([`${rest}&q=Ann`])
    await shows('users-found', /^1 user$/)
    expect((await rowsOf('users'))[0]?.slice(0, 3)).toEqual(['Ann', 'ann@example.com', '1'])
    expect(await type('bob@exam')).toEqual([`${rest}&q=bob%40exam`])
    await shows('users', 'Bob')
    expect(await type('bob@example.com')).toEqual([`${rest}&email=bob%40example.com`])
    expect(await type('7')).toEqual([`${rest}&id=7`])
    await shows('users-found', 'No user has the id 7.')
    expect(await type('zoe')).toEqual([`${rest}&q=zoe`])
    await shows('users-found', 'No name or address has “zoe”.')
    expect(await type('@')).toEqual([`${rest}&q=%40`])
    await shows('users-found', 'Query parameters are invalid: ')
    await field.fill('2')
    await field.press('Enter')
    await page.clock.runFor(50)
    await shows('users', 'Bob')
  })

  test('shows the newest first, sorts by any column, and turns pages', async () => {
    const users = Array.from({ length: 51 }, (_, index) => newUserBody({ name: `N${100 - index}` }))
    const { page, http, rowsOf, shows, button, hasFocus } = await openUsers({ users })
    const ids = async () => (await rowsOf('users')).map(([, , id]) => Number(id))
    const downFrom = (first: number) => Array.from({ length: 50 }, (_, index) => first - index)
    await shows('users-found', 'The first 50 users')
    expect(await ids()).toEqual(downFrom(51))
    await button('Next page').click()
    await shows('users-found', 'Users 51 to 51')
    expect(await ids()).toEqual([1])
    await hasFocus('users')
    expect(await button('Next page').isDisabled()).toBe(true)
    await button('Previous page').click()
    await shows('users-found', 'The first 50 users')
    const sort = async (label: string, order: string, first: number) => {
      await button(label).click()
      await page.locator(`th[aria-sort=${order}]`, { hasText: label }).waitFor()
      await until(async () => (await ids())[0] === first, 50)
    }
    await sort('Created', 'ascending', 1)
    await sort('Id', 'descending', 51)
    await sort('Name', 'ascending', 1)
    await sort('Name', 'descending', 2)
    await sort('Updated', 'descending', 51)
    await button('E-mail').click()
    await page.locator('th[aria-sort=ascending]', { hasText: 'E-mail' }).waitFor()
    await button('Next page').click()
    await shows('users-found', 'Users 51 to 51')
    await http.delete(`/users/${(await ids())[0]}`).expect(204)
    await shows('users-found', 'No more users')
  })

  test('creates a user, says what is wrong at each field, and shows a generated password once', async () => {
    const opened = await openUsers()
    const { page, button, shows, textOf, hasFocus } = opened
    await page.locator('#open-new').click()
    await hasFocus('user-title')
    await page.locator('#user-email').fill('ANN@example.com')
    await page.locator('#user-password').fill('short')
    await button('Create the user').click()
    await shows('user-name-error', "Name can't be blank")
    await hasFocus('user-name')
    expect(await textOf('user-email-error')).toBe('E-mail has already been taken')
    expect(await textOf('user-password-error')).toMatch(/^Password is too short/)
    await page.locator('#user-name').fill('Cid')
    await page.locator('#user-email').fill('cid@example.com')
    await button('Generate a password').click()
    await button('Create the user').click()
    await shows('message', 'Created: Cid (cid@example.com, id 3).')
    expect(page.url()).toMatch(/#users\/3$/)
    await shows('user', 'The new password:')
    await shows('users-found', '3 users')
    await page.getByRole('link', { name: 'Close' }).click()
    await hasFocus('open-3')
    await page.locator('#open-3').click()
    await page.locator('#user-name').waitFor()
    expect(await page.locator('#user code').count()).toBe(0)
  })

  test('creates the users of pasted lines, and keeps those that are refused', async () => {
    const { page, rowsOf, button, shows, textOf } = await openUsers({}, '#users/new')
    const many = Array.from({ length: 100 }, (_, index) => `u${index}@example.com, User ${index}`)
    const lines = [
      'Cid Lee <cid@example.com>',
      '',
      '"Dan"\tdan@example.com',
      ...many,
      'Eve',
      'Ann ann@example.com;',
    ]
    await page.locator('#user-paste').fill(lines.join('\n'))
    await button('Create them').click()
    await shows('message', 'Created 102 users.')
    expect(await textOf('user-paste-faults')).toBe(
      "Eve: email can't be blank Ann ann@example.com;: email has already been taken",
    )
    expect(await page.locator('#user-paste').inputValue()).toBe('Eve\nAnn ann@example.com;')
    await page.locator('#user-search').fill('dan')
    await shows('users-found', /^1 user$/)
    expect((await rowsOf('users'))[0]?.slice(0, 2)).toEqual(['Dan', 'dan@example.com'])
  })

  test('after another change nothing is overwritten, and the reader decides', async () => {
    const { ops, page, button, shows, hasFocus } = await openUsers({}, '#users/1')
    const name = page.locator('#user-name')
    const collide = async (mine: string, theirs: string) => {
      await name.fill(mine)
      const user = { name: theirs, email: `${theirs}@example.com` }
      await ops.put('/users/1').send({ user }).expect(200)
      await button('Save').click()
      await hasFocus('user-conflict')
      await shows('user-conflict', `Now it is ${theirs}, ${theirs}@example.com.`)
      expect(await name.inputValue()).toBe(mine)
      expect((await ops.get('/users/1')).body.name).toBe(theirs)
    }
    await collide('Mine', 'Theirs')
    await button('Save what I entered').click()
    await shows('message', 'Saved: Mine (Theirs@example.com, id 1).')
    await collide('Again', 'Other')
    await button('Keep what is there now').click()
    expect(await name.inputValue()).toBe('Other')
    await hasFocus('user-title')
    expect((await ops.get('/users/1')).body.name).toBe('Other')
  })

  test.each([
    { place: '#users/1', field: 'user-name' },
    { place: '#users/new', field: 'user-paste' },
  ])('asks before what stands unsaved in $field is lost', async ({ place, field }) => {
    const opened = await openUsers({ env: { MANAGEMENT_TOKEN: TOKEN } }, place)
    const { page, button } = opened
    const questions: string[] = []
    let answer: 'accept' | 'dismiss' = 'dismiss'
    page.on('dialog', dialog => {
      questions.push(dialog.type())
      void dialog[answer]()
    })
    const input = page.locator(`#${field}`)
    await input.click()
    await input.fill('Mine')
    const stays = async (leave: () => Promise<unknown>, question = 'confirm') => {
      questions.length = 0
      await leave()
      await until(() => questions.length > 0, 50)
      await until(() => page.url().endsWith(place), 50)
      expect(questions).toEqual([question])
      expect(await input.inputValue()).toBe('Mine')
    }
    const link = (name: string) => page.getByRole('link', { name, exact: true })
    await stays(() => page.evaluate('history.back()'))
    await stays(() => link('Operations').click())
    await stays(() => link('Close').click())
    await stays(() => link('Bob').click())
    await stays(() => button('Forget the token').click())
    await stays(() => page.evaluate('void setTimeout(() => location.reload())'), 'beforeunload')
    answer = 'accept'
    await link('Bob').click()
    await page.getByRole('heading', { name: 'User 2' }).waitFor()
    questions.length = 0
    await link('Close').click()
    await page.reload()
    expect(questions).toEqual([])
  })

  test('takes no typing that would be lost while it saves', async () => {
    const { page, button, shows } = await openUsers({}, '#users/1')
    const name = page.locator('#user-name')
    const isSent = page.waitForRequest(request => request.method() === 'PUT')
    const release = await holdNext(page, 'PUT', /\/users\/1$/)
    await name.fill('Mine')
    await button('Save').click()
    await isSent
    expect(await name.isEditable()).toBe(false)
    release()
    await shows('message', 'Saved: Mine')
    expect(await name.isEditable()).toBe(true)
  })

  test('does not delete a user that has just been changed, and shows the change', async () => {
    const opened = await openUsers({}, '#users/1')
    const { ops, page, button, shows } = opened
    opened.answerQuestions()
    // The feed is slower than whoever deletes.
    await page.route(/users\/changes.*wait=50/, () => {})
    await page.reload()
    await page.locator('#user-name').waitFor()
    const zoe = { name: 'Zoe' }
    await ops.put('/users/1').send({ user: zoe }).expect(200)
    await button('Delete the user…').click()
    await shows('user-conflict', 'Now it is Zoe, ann@example.com.')
    expect(await button('Save what I entered').count()).toBe(0)
    await ops.get('/users/1').expect(200)
    await button('Keep what is there now').click()
    await button('Delete the user…').click()
    await shows('message', 'Deleted: Zoe')
  })

  test('follows the feed: new, changed and deleted users show by themselves', async () => {
    const { http, ops, page, shows } = await openUsers({}, '#users/1')
    await http.post('/users').send(newUserBody()).expect(201)
    await shows('users-found', '3 users')
    const rename = (name: string) => ops.put('/users/1').send({ user: { name } }).expect(200)
    await rename('Zoe')
    const name = page.locator('#user-name')
    await until(async () => (await name.inputValue()) === 'Zoe', 50)
    await name.fill('Mine')
    await rename('Zoé')
    await shows('users', 'Zoé')
    expect(await name.inputValue()).toBe('Mine')
    await name.fill('Zoe')
    await until(async () => (await name.inputValue()) === 'Zoé', 50)
    await ops.delete('/users/1').expect(204)
    await shows('user', 'Zoé (ann@example.com, id 1) has been deleted.')
    await shows('users-found', '2 users')
  })

  test('a link leads to a user, and says that there is none', async () => {
    const { managementUrl, page, shows, hasFocus } = await openUsers({}, '#users/2')
    await hasFocus('user-title')
    expect(await page.locator('#user-email').inputValue()).toBe('bob@example.com')
    expect(await page.locator('[aria-current=true]').innerText()).toBe('Bob')
    await page.goto(`${managementUrl}/#users/99`)
    await shows('user', 'There is no user 99.')
    await page.goBack()
    await page.locator('#user-name').waitFor()
    await page.getByRole('link', { name: 'Close' }).click()
    await hasFocus('open-2')
    await page.getByRole('link', { name: 'Operations' }).click()
    await shows('tiles', 'in all')
  })

  test('removes a password', async () => {
    const opened = await openUsers({}, '#users/1')
    const { button, shows } = opened
    opened.answerQuestions()
    await logIn(opened, 'correct horse').expect(200)
    await button('Remove the password…').click()
    await shows('message', 'Removed the password of Ann')
    await logIn(opened, 'correct horse').expect(422)
  })

  test('without the token nothing is shown or asked for, and without any a service with keys says why', async () => {
    const { managementUrl, ops } = await openManagedApp({ env: { MANAGEMENT_TOKEN: TOKEN } })
    await ops.post('/users').set(BEARER).send(ANN).expect(201)
    const opened = await openOperatorPage(managementUrl, { isLocked: true })
    const { page, shows, button } = opened
    const queries = listQueries(page)
    await page.goto(`${managementUrl}/#users`)
    await page.getByText('Give the token above').waitFor()
    expect(queries).toEqual([])
    await page.locator('#token').fill(TOKEN)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Ann' }).click()
    await button('Save').click()
    await shows('message', 'Saved: Ann (ann@example.com, id 1).')
    await button('Forget the token').click()
    await page.getByText('Give the token above').waitFor()
    expect(await page.content()).not.toContain('ann@example.com')

    const keyed = await openManagedApp({ keys: [{ name: 'shop' }] })
    const other = await openOperatorPage(keyed.managementUrl)
    await other.page.goto(`${keyed.managementUrl}/#users`)
    await other.shows('users-found', 'MANAGEMENT_TOKEN')
  })

  test('a status that was asked for before the token was forgotten unlocks nothing', async () => {
    const { page, shows, button } = await openUsers({ env: { MANAGEMENT_TOKEN: TOKEN } })
    const isAsked = page.waitForRequest(/\/status/)
    const release = await holdNext(page, 'GET', /\/status/)
    await page.locator('#open-1').click()
    await isAsked
    await button('Forget the token').click()
    await page.getByText('Give the token above').waitFor()
    const withoutToken: string[] = []
    page.on('request', request => {
      if (request.headers().authorization === undefined) withoutToken.push(request.url())
    })
    const isAnswered = page.waitForResponse(one => one.ok() && /status/.test(one.url()))
    release()
    await isAnswered
    await page.locator('#token').fill(TOKEN)
    await page.keyboard.press('Enter')
    await shows('connection', 'Live')
    expect(withoutToken).toEqual([])
  })

  test('asks for nothing while nobody sees it, and goes on afterwards', async () => {
    const { http, page, shows } = await openUsers()
    await page.clock.install()
    await page.reload()
    await shows('users-found', '2 users')
    let asked = 0
    page.on('request', () => asked++)
    const setHidden = (isHidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} });
         document.dispatchEvent(new Event('visibilitychange'))`,
      )
    await setHidden(true)
    // What was asked for before may go on to its end.
    await until(async () => {
      const before = asked
      await page.clock.runFor('01:00')
      return asked === before
    }, 50)
    const before = asked
    await http.post('/users').send(newUserBody()).expect(201)
    for (let minutes = 0; minutes < 5; minutes++) await page.clock.runFor('01:00')
    expect(asked).toBe(before)
    await setHidden(false)
    await shows('users-found', '3 users')
  })

  test('says that the service is away, and goes on by itself', async () => {
    const { http, page, shows, textOf } = await openUsers()
    await page.context().setOffline(true)
    await page.locator('#user-search').fill('user')
    await shows('users-found', 'The service cannot be reached.')
    await http.post('/users').send(newUserBody()).expect(201)
    await page.context().setOffline(false)
    await shows('users-found', /^1 user$/)
    expect(await textOf('users')).toContain('user')
  })

  test('follows on from a cursor that is too old, and once the token is given again, with what is not saved', async () => {
    const env = { MANAGEMENT_TOKEN: TOKEN }
    const { ops, page, shows } = await openUsers({ env }, '#users/1')
    const name = page.locator('#user-name')
    await name.fill('Mine')
    const create = () => ops.post('/users').set(BEARER).send(newUserBody()).expect(201)
    const refuse = async (status: number) => {
      const isRefused = page.waitForResponse(response => response.status() === status)
      await page.route(/users\/changes/, route => route.fulfill({ status, json: {} }), { times: 1 })
      await create()
      await isRefused
    }
    await refuse(410)
    await create()
    await shows('users-found', '4 users')
    await refuse(401)
    await page.locator('#token').fill(TOKEN)
    expect(await name.isVisible()).toBe(false)
    await page.keyboard.press('Enter')
    await shows('users-found', '5 users')
    await create()
    await shows('users-found', '6 users')
    expect(await name.inputValue()).toBe('Mine')
  })

  test('loads the samples of the charts only where they are shown', async () => {
    const { ops, page } = await openUsers()
    const samples = async () => (await ops.get('/status')).body.history.samples
    await until(async () => (await samples()).length > 1, 50)
    const isAnswered = page.waitForResponse(/\/status/)
    await page.reload()
    expect((await (await isAnswered).json()).history.samples).toEqual([])
    await page.getByRole('link', { name: 'Operations' }).click()
    const plot = page.locator('.plot').first()
    await until(async () => /2xx \d/.test((await plot.getAttribute('aria-label')) ?? ''), 50)
  })

  test('on a phone too it sorts by each column, and shows the time that it sorts by', async () => {
    const { ops, page, button, rowsOf } = await openUsers()
    await page.setViewportSize({ width: 390, height: 900 })
    const bob = { name: 'Bob B.' }
    await ops.put('/users/1').send({ user: bob }).expect(200)
    const cells = page.locator('#users tbody tr').first().locator('td')
    expect([await cells.nth(2).isVisible(), await cells.nth(3).isVisible()]).toEqual([true, false])
    for (const label of ['Name', 'E-mail', 'Id', 'Created', 'Updated']) await button(label).click()
    await page.locator('th[aria-sort=descending]', { hasText: 'Updated' }).waitFor()
    await until(async () => (await rowsOf('users'))[0]?.[0] === 'Bob B.', 50)
    expect([await cells.nth(2).isVisible(), await cells.nth(3).isVisible()]).toEqual([false, true])
  })

  test('has no serious finding of axe in any look, and fits', async () => {
    const long = newUserBody({
      name: 'N'.repeat(255),
      email: `${'e'.repeat(64)}@${'d'.repeat(60)}.example.com`,
    })
    const { ops, page, button, shows } = await openUsers({ users: [long, ANN, BOB] })
    await page.emulateMedia({ reducedMotion: 'reduce' })
    const inEachLook = async () => {
      for (const look of [...LOOKS, { scheme: 'light', width: 320 } as const]) {
        await expectReadable(page, look)
        const cut = await page.evaluate<string[]>(
          `[document.documentElement, ...document.querySelectorAll('main *:not(input)')]
             .filter(one => one.scrollWidth > Math.max(one.clientWidth, 1) && getComputedStyle(one).display !== 'inline')
             .map(one => one.outerHTML.slice(0, 90))`,
        )
        expect([look.width, cut]).toEqual([look.width, []])
      }
      await page.setViewportSize({ width: 1280, height: 900 })
    }
    await inEachLook()
    await page.locator('#open-1').click()
    await page.locator('#user-name').fill('')
    await button('Generate a password').click()
    await button('Save').click()
    await shows('user-name-error', 'blank')
    await inEachLook()
    await ops.put('/users/1').send({ user: { password: 'correct horse' } })
    await page.locator('#user-name').fill('N')
    await button('Save').click()
    await shows('user-conflict', 'Somebody else')
    await inEachLook()
    await ops.delete('/users/1').expect(204)
    await shows('user', 'has been deleted')
    await inEachLook()
  })
})
