// Keeps a copy of all users by the feed of changes, beside writes, by each form of the feed, and prints how late the copies are:
// the time from the answer to a write until a follower has it. Fails unless each copy is exactly the users in the end.
// Usage: npm run bench:follow -- [--engine sqlite] [--rate 2000] [--seconds 20] [--write] [USERS]; the default is a million
// users. --write keeps the result in bench/measured.json and writes the documents that are made from it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { createClient, medianAndP99 } from './client.mjs'
import { followTable } from './documents.mjs'
import { currentRun, writePart } from './measured.mjs'
import { readOptions } from './options.mjs'
import { openEngine } from './postgres.mjs'
import { temporaryFolder } from './programs.mjs'
import { runService, startProcess } from './servers.mjs'

const {
  engine,
  rate,
  seconds,
  sizes: [users],
  write,
} = readOptions({
  numbers: { rate: [2000, 100, 100_000], seconds: [20, 1, 600] },
  users: [[1_000_000], 1000, 10_000_000],
})
const run = currentRun()
const postgres = await openEngine(engine)
const folder = temporaryFolder()
const home = join(folder, 'service')
mkdirSync(home)

/** When each change was answered, by its user and time. A change that is followed by another one soon may never be shown. */
const answeredAt = new Map()
const keyOf = ({ id, updated_at }) => `${id} ${updated_at}`

let isOver = false
const result = { run, users }
try {
  const database = postgres ? await postgres.createDatabase() : join(folder, 'users.db')
  const input = join(folder, 'users.ndjson')
  const user = (_, n) => `{"name":"User ${n}","email":"u${n}@x.co"}\n`
  writeFileSync(input, Array.from({ length: users }, user).join(''))
  await runService(database, 'import', input)
  const service = await startProcess({ env: { DATABASE_URL: database, PORT: '0' }, home })
  const { url } = service
  const client = createClient(url, 64)
  const followers = {
    'pages, asked for every 100 ms': createFollower(),
    '`wait`': createFollower(),
    'stream of events': createFollower(),
  }
  const [pages, waiting, stream] = Object.values(followers)
  const following = [followPages(url, pages, 0), followPages(url, waiting, 30)]
  const endStream = followStream(url, stream)
  while (![pages, waiting, stream].every(({ isCaughtUp }) => isCaughtUp)) await sleep(100)
  result.changesPerSecond = Math.round((await change(client)) / seconds)
  await sleep(3000)
  isOver = true
  endStream()
  // Ends those that wait.
  await client.ask('/users/1', { method: 'PUT', user: { name: 'Last' } })
  await Promise.all(following)
  const right = await readAll(url)
  result.forms = Object.entries(followers).map(([form, { byId, arrivedAt }]) => {
    for (const copy of [byId, right]) copy.delete(1)
    if (!isDeepStrictEqual(byId, right)) throw new Error(`the copy by ${form} is wrong`)
    const known = [...arrivedAt].filter(([key]) => answeredAt.has(key))
    const late = known.map(([key, at]) => Math.max(0, at - answeredAt.get(key)))
    const [p50Ms, p99Ms] = medianAndP99(late)
    return { form, shown: late.length, p50Ms, p99Ms }
  })
  client.close()
  await service.stop()
} finally {
  await postgres?.close()
}
console.log(followTable(result))
if (write) writePart('follow', engine, result)

/** The users as a follower has them, and when it got each change. */
function createFollower() {
  const byId = new Map()
  const arrivedAt = new Map()
  const apply = (id, user) => {
    if (user === null) byId.delete(id)
    else byId.set(id, user)
    if (user !== null) arrivedAt.set(keyOf(user), performance.now())
  }
  return { byId, arrivedAt, apply, isCaughtUp: false }
}

async function followPages(url, follower, wait) {
  for (let next; !isOver; ) {
    const query = `limit=1000&wait=${wait}${next ? `&after=${next}` : ''}`
    const page = await (await fetch(`${url}/users/changes?${query}`)).json()
    for (const { id, user } of page.data) follower.apply(id, user)
    next = page.next
    follower.isCaughtUp ||= !page.has_more
    if (wait === 0 && !page.has_more) await sleep(100)
  }
}

/** Returns a function that ends the stream. */
function followStream(url, follower) {
  let text = ''
  const headers = { Accept: 'text/event-stream' }
  const request = get(`${url}/users/changes`, { headers }, response => {
    response.on('error', () => {})
    response.setEncoding('utf8').on('data', part => {
      text += part
      const events = text.split('\n\n')
      text = events.pop()
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1]
        if (data === undefined) continue
        const user = JSON.parse(data)
        follower.apply(user.id, user.deleted_at === undefined ? user : null)
      }
      follower.isCaughtUp ||= follower.byId.size >= users
    })
  })
  return () => request.destroy()
}

/** Changes, creates and deletes users at the wanted rate. Returns how many were done. */
async function change(client) {
  let done = 0
  let next = users
  const endsAt = performance.now() + 1000 * seconds
  async function one() {
    const target = `/users/${2 + Math.floor(Math.random() * (users - 1))}`
    const dice = Math.random()
    const answer =
      dice < 0.9
        ? await client.ask(target, { method: 'PUT', user: { name: `Name ${dice}` } })
        : dice < 0.95
          ? await client.ask('/users', {
              method: 'POST',
              user: { name: 'New', email: `n${++next}@x.co` },
            })
          : await client.ask(target, { method: 'DELETE' })
    done++
    // Not for a deletion, nor for a user who is gone.
    if (answer.status < 300 && answer.body !== '') {
      answeredAt.set(keyOf(JSON.parse(answer.body)), performance.now())
    }
  }
  const running = new Set()
  while (performance.now() < endsAt) {
    const startedAt = performance.now()
    for (let count = 0; count < rate / 100; count++) {
      const writing = one().finally(() => running.delete(writing))
      running.add(writing)
    }
    await sleep(Math.max(0, 10 - (performance.now() - startedAt)))
  }
  await Promise.all(running)
  return done
}

async function readAll(url) {
  const response = await fetch(`${url}/users`, { headers: { Accept: 'application/x-ndjson' } })
  const lines = (await response.text()).split('\n').filter(line => line !== '')
  const all = lines.map(line => JSON.parse(line))
  return new Map(all.map(user => [user.id, user]))
}
