// Keeps a copy of all users by the feed of changes, beside writes, by each form of the feed, and prints how late the copies are:
// the time from the answer to a write until a follower has it. Fails unless each copy is exactly the users in the end.
// Usage: npm run bench:follow -- [--engine sqlite] [--rate 2000] [--seconds 20] [USERS]; the default is a million users.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, get, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { NO_POSTGRES, openPostgres } from './postgres.mjs'
import { SERVICE, startProcess } from './servers.mjs'

const { values: options, positionals } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    rate: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '20' },
  },
  allowPositionals: true,
})
const users = Number(positionals[0] ?? 1_000_000)
const rate = Number(options.rate)
const seconds = Number(options.seconds)
if (![users, rate, seconds].every(number => Number.isInteger(number) && number > 0)) {
  console.error('USERS, --rate and --seconds must be whole numbers')
  process.exit(2)
}
const postgres = options.engine === 'postgres' ? await openPostgres() : undefined
if (options.engine === 'postgres' && postgres === undefined) {
  console.error(NO_POSTGRES)
  process.exit(0)
}
const folder = mkdtempSync(join(tmpdir(), 'user-records-follow-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

const agent = new Agent({ keepAlive: true, maxSockets: 64 })
/** When each change was answered, by its user and time. A change that is followed by another one soon may never be shown. */
const answeredAt = new Map()

function send(url, method, body) {
  const text = JSON.stringify(body) ?? ''
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
  return new Promise((resolve, reject) => {
    request(url, { method, headers, agent }, response => {
      let answer = ''
      response.on('data', part => {
        answer += part
      })
      response.on('end', () => resolve(answer === '' ? {} : JSON.parse(answer)))
    })
      .on('error', reject)
      .end(text)
  })
}

/** The users as a follower has them, and when it got each change. */
function createCopy() {
  const byId = new Map()
  const arrivedAt = new Map()
  return {
    byId,
    arrivedAt,
    apply: (id, user) => {
      if (user === null) byId.delete(id)
      else byId.set(id, user)
      if (user !== null) arrivedAt.set(keyOf(user), performance.now())
    },
  }
}

const keyOf = ({ id, updated_at }) => `${id} ${updated_at}`

async function followPages(url, copy, wait, state) {
  for (let next; !state.isOver; ) {
    const query = `limit=1000&wait=${wait}${next ? `&after=${next}` : ''}`
    const page = await (await fetch(`${url}/users/changes?${query}`)).json()
    for (const { id, user } of page.data) copy.apply(id, user)
    next = page.next
    state.caughtUp ||= !page.has_more
    if (wait === 0 && !page.has_more) await sleep(100)
  }
}

function followStream(url, copy, state) {
  let text = ''
  get(`${url}/users/changes`, { headers: { Accept: 'text/event-stream' } }, response => {
    response.setEncoding('utf8').on('data', part => {
      text += part
      const events = text.split('\n\n')
      text = events.pop()
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1]
        if (data === undefined) continue
        const user = JSON.parse(data)
        copy.apply(user.id, user.deleted_at === undefined ? user : null)
      }
      state.caughtUp ||= copy.byId.size >= users
    })
    state.end = () => response.destroy()
  })
}

const input = join(folder, 'users.ndjson')
const lines = Array.from({ length: users }, (_, n) => `{"name":"User ${n}","email":"u${n}@x.co"}`)
writeFileSync(input, `${lines.join('\n')}\n`)
const DATABASE_URL =
  postgres === undefined ? join(folder, 'users.db') : await postgres.createDatabase()
const env = { DATABASE_URL, PORT: '0' }
execFileSync(process.execPath, [SERVICE, 'import', input], {
  env: { ...process.env, ...env },
  stdio: 'ignore',
})
const home = mkdtempSync(join(folder, 'service-'))
const service = await startProcess({ env, home })
const { url } = service
const copies = { pages: createCopy(), wait: createCopy(), stream: createCopy() }
const states = { pages: {}, wait: {}, stream: {} }
try {
  const following = [
    followPages(url, copies.pages, 0, states.pages),
    followPages(url, copies.wait, 30, states.wait),
  ]
  followStream(url, copies.stream, states.stream)
  while (!Object.values(states).every(({ caughtUp }) => caughtUp)) await sleep(100)
  const written = await write()
  await sleep(3000)
  for (const state of Object.values(states)) state.isOver = true
  states.stream.end()
  // Ends those that wait.
  await send(`${url}/users/1`, 'PUT', { user: { name: 'Last' } })
  await Promise.all(following)
  const right = await readAll()
  right.delete(1)
  console.log(`${users} users, ${Math.round(written / seconds)} changes a second\n`)
  console.log('| form | changes shown | p50 ms | p99 ms |\n|---|---:|---:|---:|')
  for (const [form, copy] of Object.entries(copies)) {
    copy.byId.delete(1)
    if (!isDeepStrictEqual(copy.byId, right)) throw new Error(`the copy by ${form} is wrong`)
    const late = [...copy.arrivedAt]
      .filter(([key]) => answeredAt.has(key))
      .map(([key, at]) => Math.max(0, at - answeredAt.get(key)))
      .sort((one, other) => one - other)
    const share = of => late[Math.floor(late.length * of)]?.toFixed(1)
    console.log(`| ${form} | ${late.length} | ${share(0.5)} | ${share(0.99)} |`)
  }
} finally {
  await service.stop()
  agent.destroy()
  await postgres?.close()
}

/** Changes, creates and deletes users at the wanted rate. Returns how many were done. */
async function write() {
  let done = 0
  let next = users
  const endsAt = performance.now() + 1000 * seconds
  const body = () => ({ user: { name: `Name ${Math.random()}` } })
  async function one() {
    const id = 2 + Math.floor(Math.random() * (users - 1))
    const dice = Math.random()
    const answer =
      dice < 0.9
        ? await send(`${url}/users/${id}`, 'PUT', body())
        : dice < 0.95
          ? await send(`${url}/users`, 'POST', { user: { name: 'New', email: `n${++next}@x.co` } })
          : await send(`${url}/users/${id}`, 'DELETE')
    // Not for a deletion, nor for a user who is gone.
    if (answer.id !== undefined) answeredAt.set(keyOf(answer), performance.now())
    done++
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

async function readAll() {
  const all = new Map()
  const response = await fetch(`${url}/users`, { headers: { Accept: 'application/x-ndjson' } })
  for (const line of (await response.text()).split('\n')) {
    if (line !== '') all.set(JSON.parse(line).id, JSON.parse(line))
  }
  return all
}
