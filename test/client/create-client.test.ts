import { createServer } from 'node:http'
import express from 'express'
import { describe, expect, test } from 'vitest'
import { createClient, UserRecordsError } from '../../client/create-client.ts'
import { createUserRecords } from '../../src/library.ts'
import { collect } from '../support/collect.ts'
import { listen } from '../support/listen.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'

const PASSWORD = 'correct horse'

let serial = 0

function newUser(name = 'Ann') {
  serial++
  return { name, email: `user${serial}@example.com` }
}

describe('a client of the service', () => {
  const app = shareTestApp()
  const open = () => createClient({ url: app.url })

  test('creates, reads, updates by version and deletes', async () => {
    const users = open()
    const ann = await users.create(newUser())
    expect(await users.read(ann.id)).toEqual(ann)
    const version = await users.version(ann.id)
    const anna = await users.update(ann.id, { name: 'Anna' }, { ifMatch: version })
    expect(anna).toEqual({ ...ann, name: 'Anna', updated_at: anna.updated_at })
    const stale = users.update(ann.id, { name: 'Annie' }, { ifMatch: version })
    await expect(stale).rejects.toMatchObject({ status: 412, reason: 'version_mismatch' })
    expect(await users.delete(ann.id)).toBe(true)
    expect(await users.delete(ann.id)).toBe(false)
    expect([await users.read(ann.id), await users.version(ann.id)]).toEqual([undefined, undefined])
  })

  test('throws what the service refuses, with all that it says', async () => {
    const users = open()
    const error = await users.create({ name: '', email: 'nobody' }).catch(thrown => thrown)
    expect(error).toBeInstanceOf(UserRecordsError)
    expect(error).toMatchObject({
      status: 422,
      reason: 'validation_failed',
      message: 'Validation failed',
      errors: { name: ["can't be blank"], email: ['is invalid'] },
      requestId: expect.stringMatching(/.+/),
    })
    await expect(users.update(999_999, { name: 'Ann' })).rejects.toMatchObject({
      reason: 'user_not_found',
    })
  })

  test('sends a key of its own with each create, or the one that it is given', async () => {
    const users = open()
    const [one, two] = [newUser(), newUser()]
    expect((await users.create(one)).id).not.toBe((await users.create(two)).id)
    const user = newUser()
    const first = await users.create(user, { idempotencyKey: 'order-7' })
    expect(await users.create(user, { idempotencyKey: 'order-7' })).toEqual(first)
    await expect(users.create(one, { idempotencyKey: 'order-7' })).rejects.toMatchObject({
      reason: 'idempotency_key_reused',
    })
  })

  test('creates many, and answers for each', async () => {
    const one = newUser()
    const [first, second, third] = await open().createMany([one, one, newUser()])
    expect([first?.status, third?.status]).toEqual([201, 201])
    expect(second).toMatchObject({
      status: 422,
      reason: 'email_taken',
      errors: { email: ['has already been taken'] },
    })
  })

  test('verifies a password', async () => {
    const users = open()
    const user = newUser()
    const ann = await users.create({ ...user, password: PASSWORD })
    expect(await users.verify({ email: user.email, password: PASSWORD })).toEqual(ann)
    expect(await users.verify({ email: user.email, password: 'wrong horse' })).toBeUndefined()
  })

  test('does not take a wrong address for a user who is not there', async () => {
    const users = createClient({ url: `${app.url}/nowhere` })
    await expect(users.read(1)).rejects.toMatchObject({ status: 404, reason: 'path_not_found' })
    await expect(users.delete(1)).rejects.toMatchObject({ status: 404 })
  })
})

describe('lists', () => {
  const names = ['Ann', 'Bea', 'Cem', 'Dan', 'Eve']
  const app = shareTestApp({ users: names.map(name => ({ user: newUser(name) })) })

  function openCounting() {
    const paths: string[] = []
    const users = createClient({
      url: app.url,
      fetch: (url, init) => {
        paths.push(String(url).slice(app.url.length))
        return fetch(url, init)
      },
    })
    return { users, paths }
  }

  test('have every user, page after page, in the order asked for', async () => {
    const { users, paths } = openCounting()
    const found = await collect(users.list({ sort: '-name', per_page: 2 }))
    expect(found.map(({ name }) => name)).toEqual([...names].reverse())
    expect(paths).toHaveLength(3)
  })

  test('ask for no page that the loop does not reach', async () => {
    const { users, paths } = openCounting()
    const list = users.list({ per_page: 2 })
    expect(paths).toHaveLength(0)
    for await (const user of list) {
      if (user.name === 'Bea') break
    }
    expect(paths).toHaveLength(1)
  })

  test('take filters of one value or of several', async () => {
    const { users } = openCounting()
    const all = await collect(users.list())
    const two = all.slice(1, 3)
    const id = two.map(user => user.id)
    const email = two.map(user => user.email)
    expect(await collect(users.list({ id }))).toEqual(two)
    expect(await collect(users.list({ email }))).toEqual(two)
    expect(await collect(users.list({ q: 'be' }))).toEqual([all[1]])
    await expect(users.list({ id: [] }).next()).rejects.toMatchObject({ reason: 'query_invalid' })
  })

  test('come as single pages with a total, and the cursor of the next', async () => {
    const { users } = openCounting()
    const first = await users.page({ page: 2, per_page: 2 })
    expect([first.data.map(({ name }) => name), first.total]).toEqual([['Cem', 'Dan'], 5])
    const last = await users.page({ after: first.next, per_page: 2, count: false })
    expect(last).toMatchObject({ data: [{ name: 'Eve' }], total: undefined, next: undefined })
  })
})

test('a client with a key is let in, without one it is told', async () => {
  const app = await openTestApp({ keys: [{ name: 'app', scopes: ['users:read'] }] })
  const key = app.bearers[0]?.replace('Bearer ', '')
  expect(await createClient({ url: app.url, key }).page()).toMatchObject({ data: [], total: 0 })
  const refused = createClient({ url: app.url }).page()
  await expect(refused).rejects.toMatchObject({ status: 401, reason: 'key_required' })
})

test('the address may have a path, and a slash at its end', async () => {
  const records = await createUserRecords({ DATABASE_URL: ':memory:' })
  const server = createServer(express().use('/api/v1', records.app))
  const users = createClient({ url: `http://127.0.0.1:${await listen(server)}/api/v1/` })
  const { id } = await users.create(newUser())
  await users.create(newUser())
  expect((await users.read(id))?.id).toBe(id)
  expect(await collect(users.list({ per_page: 1 }))).toHaveLength(2)
  server.closeAllConnections()
  await records.close()
})

test('what is no address is refused', () => {
  expect(() => createClient({ url: 'example.com' })).toThrow(TypeError)
})

test('changes come from the beginning, then as they happen, over a restart', async () => {
  const databaseUrl = `${temporaryFolder()}/users.db`
  const first = await openTestApp({ env: { DATABASE_URL: databaseUrl } })
  // In place of a port that both services take, one after the other.
  let { url } = first
  const users = createClient({
    url,
    fetch: (to, init) => fetch(String(to).replace(first.url, url), init),
  })
  const ann = await users.create(newUser())
  const changes = users.changes()
  const beginning = await changes.next()
  expect(beginning.value).toMatchObject({ data: [{ id: ann.id, user: ann }], reset: false })
  const waiting = changes.next()
  const bea = await users.create(newUser('Bea'))
  expect((await waiting).value.data).toEqual([{ id: bea.id, user: bea }])
  const overRestart = changes.next()
  await first.stop()
  const second = await openTestApp({ env: { DATABASE_URL: databaseUrl } })
  url = second.url
  await users.delete(ann.id)
  expect((await overRestart).value.data).toMatchObject([{ id: ann.id, user: null }])
  await changes.return(undefined as never)
})
