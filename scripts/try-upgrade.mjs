// Upgrades services on PostgreSQL one after the other while clients use them: an old commit serves, the release in `dist`
// migrates and serves beside it, and then replaces it. Compares each answer and the database at the end with what the clients
// know. Exits with 1 if anything is wrong or lost.
// Usage: npm run build && node scripts/try-upgrade.mjs postgres://USER@HOST:PORT/DATABASE [COMMIT]
// COMMIT: the oldest one whose schema this release takes over, unless another is given.

import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  buildCommit,
  FIRST_ON_POSTGRES,
  inFolder,
  startMain,
  untilServes,
  withDatabase,
} from './old-releases.mjs'

const NEW = fileURLToPath(new URL('../dist/main.js', import.meta.url))

const CLIENTS = 8

/** Users that are there before, so that the new release takes some time to index them. */
const EARLY_USERS = 20_000

/** How long clients use each state of the upgrade. */
const STAGE_MS = 4000

const [server, commit = FIRST_ON_POSTGRES] = process.argv.slice(2)
if (server === undefined) throw new Error('the URL of a server of PostgreSQL is missing')
const OLD = buildCommit(commit)

const mistakes = []
const counts = new Map()

await inFolder(cwd => withDatabase(server, databaseUrl => tryUpgrade({ cwd, databaseUrl })))
console.table(Object.fromEntries([...counts].sort()))
for (const mistake of mistakes.slice(0, 20)) console.error(mistake)
console.log(mistakes.length === 0 ? 'nothing wrong, nothing lost' : `${mistakes.length} mistakes`)
process.exit(mistakes.length === 0 ? 0 : 1)

async function tryUpgrade({ cwd, databaseUrl }) {
  const env = { DATABASE_URL: databaseUrl, PORT: '0', LOG_LEVEL: 'info' }
  const run = async (main, ...args) => {
    const command = startMain({ main, cwd, env, args })
    command.child.stdin.end()
    return { code: await command.exited, output: command.output() }
  }
  const serve = async main => {
    const service = startMain({ main, cwd, env })
    return { ...service, url: await untilServes(service) }
  }
  const stop = async ({ child, exited, output }) => {
    child.kill('SIGTERM')
    expect('exit code of a service that was stopped', await exited, 0)
    const faults = output().match(/^.*"level":"(?:error|fatal)".*$/gm)
    expect('errors in the log of a service', faults ?? [], [])
  }

  writeFileSync(join(cwd, 'early.ndjson'), Array.from({ length: EARLY_USERS }, earlyUser).join(''))
  expect('exit code of an import', (await run(OLD, 'import', 'early.ndjson')).code, 0)
  const old = [await serve(OLD), await serve(OLD)]
  const services = { current: [...old], hasNew: false }
  const clients = createClients(services)
  await sleep(STAGE_MS)

  console.log('migrate')
  const migrated = await run(NEW, 'migrate')
  expect('exit code of migrate', migrated.code, 0)
  await sleep(STAGE_MS)

  console.log('the first new service')
  const first = await serve(NEW)
  services.current.push(first)
  services.hasNew = true
  await sleep(STAGE_MS)
  const refused = await run(OLD)
  expect('exit code of an old release that starts now', refused.code, 1)
  console.log(`an old release that starts now says: ${refused.output.trim()}`)

  console.log('new services only')
  const second = await serve(NEW)
  services.current = [first, second]
  await clients.untilSettled()
  for (const service of old) await stop(service)
  await sleep(STAGE_MS)
  await clients.stop()

  await compare({ services, known: clients.known })
  for (const service of services.current) await stop(service)
  const checked = await run(NEW, 'check')
  expect('what check says', checked, { code: 0, output: checked.output })
}

function earlyUser(_, index) {
  return `{"name": "Early User ${index}", "email": "early${index}@example.com"}\n`
}

/** Clients that each own users, whom only they change, and so know what every answer must be. */
function createClients(services) {
  const known = new Map()
  const deleted = new Set()
  let isStopped = false
  /** Requests of each client run one after the other; this counts its rounds. */
  const rounds = Array.from({ length: CLIENTS }, () => 0)
  const running = rounds.map((_, client) => runClient(client))

  async function runClient(client) {
    const own = []
    while (!isStopped) {
      await round(client, own)
      rounds[client]++
    }
  }

  async function round(client, own) {
    const email = `client${client}.${rounds[client]}@example.com`
    const user = { name: `Client ${client} Round ${rounds[client]}`, email }
    const [one, other] = twoOf(services.current)
    await createTwice({ one, other, user, own })
    await createSame({ one, other, email: `same.${email}`, own })
    for (const id of own.slice(-2)) await read(id)
    const id = own[Math.floor(Math.random() * own.length)]
    if (id !== undefined) await changeTwice({ one, other, id })
    if (own.length > 20) await remove(own)
    await list(own)
    if (services.hasNew) await search(user, own)
  }

  /** The same create with one key at two services at once: one user, and two equal answers or a 409. */
  async function createTwice({ one, other, user, own }) {
    const headers = { 'idempotency-key': randomUUID() }
    const send = service => call(service, 'POST', '/users', { user }, headers)
    const answers = await Promise.all([send(one), send(other)])
    const created = answers.filter(({ status }) => status === 201)
    if (!answers.every(({ status }) => [201, 409].includes(status)) || created.length === 0) {
      return wrong('two creates with one key', answers)
    }
    const [{ body, text }] = created
    learn(body, own)
    const again = await send(other)
    expect('a create that is repeated', [again.status, again.text], [201, text])
  }

  /** Two creates of one e-mail at once: one wins. */
  async function createSame({ one, other, email, own }) {
    const send = service => call(service, 'POST', '/users', { user: { name: 'Same', email } })
    const answers = await Promise.all([send(one), send(other)])
    const statuses = answers.map(({ status }) => status).sort()
    expect('two creates of one e-mail', statuses, [201, 422])
    for (const { status, body } of answers) if (status === 201) learn(body, own)
  }

  /** Two changes of one version at once: one wins. */
  async function changeTwice({ one, other, id }) {
    const { etag } = await read(id)
    const send = (service, name) =>
      call(service, 'PUT', `/users/${id}`, { user: { name } }, { 'if-match': etag })
    const answers = await Promise.all([
      send(one, `Changed ${randomUUID()}`),
      send(other, `Changed ${randomUUID()}`),
    ])
    const statuses = answers.map(({ status }) => status).sort()
    expect('two changes of one version', statuses, [200, 412])
    for (const { status, body } of answers) if (status === 200) known.set(id, body)
  }

  async function remove(own) {
    const [id] = own.splice(0, 1)
    const answer = await call(twoOf(services.current)[0], 'DELETE', `/users/${id}`)
    expect('a delete', answer.status, 204)
    known.delete(id)
    deleted.add(id)
    for (const service of services.current) {
      expect('a deleted user', (await call(service, 'GET', `/users/${id}`)).status, 404)
    }
  }

  async function read(id) {
    const answer = await call(twoOf(services.current)[0], 'GET', `/users/${id}`)
    expect('a user', answer.body, known.get(id))
    return answer
  }

  /** Follows a cursor of one service on another one. */
  async function list(own) {
    const from = Math.min(...own) - 1
    const [one, other] = twoOf(services.current)
    const page = await call(one, 'GET', '/users?sort=-created_at&per_page=2')
    const next = /<([^>]+)>; rel="next"/.exec(page.link ?? '')?.[1]
    if (next !== undefined) expect('a cursor', (await call(other, 'GET', next)).status, 200)
    const { body } = await call(other, 'GET', `/users?sort=-id&per_page=1000`)
    for (const id of own) {
      if (id <= from || body.length === 1000) continue
      expect(
        'a user of a list',
        body.find(user => user.id === id),
        known.get(id),
      )
    }
  }

  /** A new release finds what an old one has written. */
  async function search(user, own) {
    const service = services.current.at(-1)
    const { status, body } = await call(
      service,
      'GET',
      `/users?q=${encodeURIComponent(user.email)}`,
    )
    // The words of the users from before the migration are still being indexed.
    if (status === 503 && body.reason === 'words_unavailable') return
    const ids = body.map?.(({ id }) => id) ?? body
    const expected = own.filter(id => known.get(id)?.email === user.email)
    if (!expected.every(id => ids.includes?.(id))) wrong(`a search for ${user.email}`, body)
  }

  function learn(user, own) {
    if (known.has(user.id) || deleted.has(user.id)) wrong('an id given out again', user)
    known.set(user.id, user)
    own.push(user.id)
  }

  return {
    known,
    deleted,
    /** Resolves when no client uses the services of before. */
    untilSettled: async () => {
      const before = [...rounds]
      while (rounds.some((count, client) => count < before[client] + 2)) await sleep(20)
    },
    stop: async () => {
      isStopped = true
      await Promise.all(running)
    },
  }
}

async function compare({ services, known }) {
  const [service] = services.current
  const found = new Map()
  for (let next = '/users?per_page=1000&count=true'; next !== undefined; ) {
    const page = await call(service, 'GET', next)
    for (const user of page.body) found.set(user.id, user)
    expect('X-Total-Count', Number(page.total), known.size + EARLY_USERS)
    next = /<([^>]+)>; rel="next"/.exec(page.link ?? '')?.[1]
  }
  const late = [...found.values()].filter(({ name }) => !name.startsWith('Early User'))
  expect('all users', late, sorted(known))
  const searched = await call(service, 'GET', '/users?q=early+user&count=true&per_page=1')
  expect('how many early users are found', Number(searched.total), EARLY_USERS)
  for (const { id, email } of known.values()) {
    const { body } = await call(service, 'GET', `/users?q=${encodeURIComponent(email)}`)
    if (!body.some?.(user => user.id === id)) wrong(`a search for ${email}`, body)
  }
  console.log(`${known.size} users compared`)
}

function sorted(known) {
  return [...known.values()].sort((one, other) => one.id - other.id)
}

function twoOf(services) {
  const first = Math.floor(Math.random() * services.length)
  const step = 1 + Math.floor(Math.random() * (services.length - 1))
  return [services[first], services[(first + step) % services.length]]
}

async function call({ url }, method, path, body, headers = {}) {
  const response = await fetch(url + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  const { status } = response
  const kind = `${method} ${path.replace(/\d+|\?.*/g, '…')} ${status}`
  counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return {
    status,
    text,
    body: text === '' ? undefined : JSON.parse(text),
    etag: response.headers.get('etag'),
    link: response.headers.get('link'),
    total: response.headers.get('x-total-count'),
  }
}

function expect(about, found, wanted) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    wrong(`${about}: ${JSON.stringify(wanted)} is wanted`, found)
  }
}

function wrong(about, found) {
  mistakes.push(`${about}; found ${JSON.stringify(found)}`.slice(0, 500))
}
