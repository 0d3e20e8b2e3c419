import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answered, type Ask, type Client, nextPath, type Reply } from './client.ts'
import type { FaultWindows } from './fault-windows.ts'
import { type Account, addPossible, isCertain, type Ledger } from './ledger.ts'
import { MALFORMED } from './malformed.ts'
import type { Problems } from './problems.ts'
import type { Site } from './site.ts'

export interface TrafficParts {
  readonly site: Site
  readonly client: Client
  readonly ledger: Ledger
  readonly windows: FaultWindows
  readonly problems: Problems
}

/** How long nobody touches a user after a write with an unknown outcome: it may still be on its way. */
const QUARANTINE_MS = 5000

const SORTS = ['id', '-id', 'name', '-created_at', 'updated_at']

/** What clients do, with its share of all. An action is a request or a few. */
export function createTraffic(parts: TrafficParts): readonly [number, () => Promise<void>][] {
  const { site, client, ledger, windows, problems } = parts
  /** They stay as they are, because they are few. */
  const withPassword: Account[] = []

  function wrong(what: string, reply: Answered, wanted = ''): void {
    problems.note(`wrong answer to ${what}`, `${wanted} ${reply.status} ${reply.text}`.trim())
  }

  function putBack(account: Account): void {
    const others = account.password === undefined ? ledger.free : withPassword
    others.push(account)
  }

  function release(account: Account): void {
    if (isCertain(account)) {
      if (account.names[0] !== undefined) putBack(account)
      return
    }
    const timer = setTimeout(() => {
      if (account.id !== undefined) putBack(account)
    }, QUARANTINE_MS)
    timer.unref()
  }

  /** An action on a user that nobody else touches meanwhile. */
  const onAccount = (work: (account: Account) => Promise<void>) => async () => {
    const account = ledger.take()
    if (account === undefined) return create({})
    try {
      await work(account)
    } finally {
      release(account)
    }
  }

  function get(path: string, more: Partial<Ask> = {}): Promise<Reply> {
    const route = path.replace(/\?.*/, '').replace(/^\/users\/\d+$/, '/users/{id}')
    return client.ask({ method: 'GET', path, route, key: 'reader', ...more })
  }

  function newAccount({ hasKey = false, password }: { hasKey?: boolean; password?: string } = {}) {
    const serial = ledger.nextSerial()
    const email = `u${serial}@soak.example`
    const user = { name: `First w${serial}x`, email, ...(password !== undefined && { password }) }
    const account: Account = {
      ...{ email, createBody: JSON.stringify({ user }), password, names: [undefined] },
      idempotencyKey: hasKey ? randomUUID() : undefined,
    }
    ledger.open(account)
    return account
  }

  function askToCreate(account: Account, more: Partial<Ask> = {}): Promise<Reply> {
    const { idempotencyKey } = account
    return client.ask({
      ...{ method: 'POST', path: '/users', route: '/users', body: account.createBody },
      headers: { ...(idempotencyKey !== undefined && { 'Idempotency-Key': idempotencyKey }) },
      ...more,
    })
  }

  /** The same create through both services at once. */
  function askBothToCreate(account: Account): Promise<Reply[]> {
    return Promise.all(site.services.map(service => askToCreate(account, { service })))
  }

  function addCreated(account: Account): void {
    addPossible(account, JSON.parse(account.createBody).user.name)
  }

  function noteCreated(account: Account, reply: Reply): void {
    if (reply.kind === 'unknown') addCreated(account)
    if (reply.kind !== 'answer') return
    if (reply.status === 201) {
      if (reply.headers.location !== `/users/${reply.json.id}`) wrong('a create (Location)', reply)
      ledger.settle(account, reply.json, reply.headers.etag)
    } else wrong('a create', reply)
  }

  async function create(options: { hasKey?: boolean; password?: string }): Promise<void> {
    const account = newAccount(options)
    noteCreated(account, await askToCreate(account))
    release(account)
    if (!isCertain(account) && account.idempotencyKey !== undefined) await repeat(account)
  }

  /** After an unknown outcome the client repeats with the same key until it knows. */
  async function repeat(account: Account): Promise<void> {
    for (let attempt = 0; attempt < 60; attempt++) {
      await sleep(1000, undefined, { ref: false })
      const reply = await askToCreate(account)
      if (reply.kind !== 'answer' || reply.status === 409) continue
      if (reply.status !== 201) return wrong('a repeated create', reply)
      return ledger.settle(account, reply.json, reply.headers.etag)
    }
  }

  async function rename(account: Account, etag: string | undefined) {
    const name = `Later w${ledger.nextSerial()}x`
    const reply = await client.ask({
      ...{ method: 'PUT', path: `/users/${account.id}`, route: '/users/{id}' },
      headers: { ...(etag !== undefined && { 'If-Match': etag }) },
      body: JSON.stringify({ user: { name } }),
    })
    return { name, reply }
  }

  type Renamed = Awaited<ReturnType<typeof rename>>

  function noteRenamed(account: Account, { name, reply }: Renamed): void {
    if (reply.kind === 'unknown') addPossible(account, name)
    if (reply.kind !== 'answer') return
    if (reply.status === 200) {
      if (reply.json.name !== name) wrong('an update', reply)
      ledger.settle(account, reply.json, reply.headers.etag)
    } else if (reply.status === 404 && account.names.includes(undefined)) {
      account.names = [undefined]
    } else wrong('an update', reply)
  }

  async function remove(account: Account): Promise<void> {
    const path = `/users/${account.id}`
    const reply = await client.ask({ method: 'DELETE', path, route: '/users/{id}' })
    if (reply.kind === 'unknown') addPossible(account, undefined)
    if (reply.kind !== 'answer') return
    const wasMaybeGone = account.names.includes(undefined)
    if (reply.status === 204 || (reply.status === 404 && wasMaybeGone)) account.names = [undefined]
    else wrong('a delete', reply)
  }

  async function read(account: Account): Promise<void> {
    const reply = await get(`/users/${account.id}`)
    if (reply.kind !== 'answer' || reply.mayBeStale) return
    const seen = reply.status === 200 ? reply.json : undefined
    if (![200, 404].includes(reply.status) || !account.names.includes(seen?.name)) {
      wrong('a read', reply, `not one of ${account.names}:`)
    } else if (account.updatedAt !== undefined && seen?.updated_at !== account.updatedAt) {
      wrong('a read (updated_at)', reply)
    } else if (seen !== undefined) ledger.settle(account, seen, reply.headers.etag)
    else account.names = [undefined]
  }

  async function readUnchanged(account: Account): Promise<void> {
    const { etag, id } = account
    if (etag === undefined) return read(account)
    const reply = await get(`/users/${id}`, { headers: { 'If-None-Match': etag } })
    if (reply.kind !== 'answer' || reply.mayBeStale) return
    if (reply.status !== 304) wrong('a read of an unchanged user', reply)
  }

  async function list(): Promise<void> {
    const sort = SORTS[ledger.nextSerial() % SORTS.length]
    const first = await get(`/users?per_page=20&count=true&sort=${sort}`)
    if (first.kind !== 'answer') return
    if (first.status !== 200 || first.json.length > 20) return wrong('a list', first)
    const next = nextPath(first)
    if (next === undefined) return
    const second = await get(next)
    if (second.kind !== 'answer') return
    if (second.status !== 200) return wrong('a next page', second)
    if (sort === 'id' && second.json[0] && !(second.json[0].id > first.json.at(-1).id)) {
      wrong('a next page (order)', second)
    }
  }

  async function find(account: Account): Promise<void> {
    const isSure = isCertain(account)
    const word = /w\d+x/.exec(account.names[0] ?? '')?.[0] ?? 'soak'
    const reply = await get(`/users?q=${word}`)
    if (reply.kind !== 'answer' || reply.mayBeStale) return
    if (reply.status !== 200) return wrong('a list with q', reply)
    const isThere = reply.json.some((user: { id: number }) => user.id === account.id)
    if (isSure && !isThere) wrong('a list with q', reply, `${account.id} by ${word}:`)
  }

  async function replay(account: Account): Promise<void> {
    if (account.idempotencyKey === undefined || !isCertain(account)) return
    const reply = await askToCreate(account)
    if (reply.kind !== 'answer') return
    const isReplayed = reply.headers['idempotency-replayed'] === 'true'
    if (reply.status !== 201 || !isReplayed || reply.json.id !== account.id) {
      wrong('a create with a key that was used', reply)
    }
    const body = account.createBody.replace('First', 'Other')
    const other = await askToCreate(account, { body })
    if (other.kind === 'answer' && other.json?.reason !== 'idempotency_key_reused') {
      wrong('another create with the same key', other)
    }
  }

  /** Two creates with one address at once: one of them wins. */
  async function createTwins(): Promise<void> {
    const account = newAccount()
    const replies = await askBothToCreate(account)
    const won = answersOf(replies, 201)
    const areBothKnown = replies.every(reply => reply.kind === 'answer')
    const hasLoser = answersOf(replies, 422).filter(isTaken).length === 1
    if (won.length > 1 || (areBothKnown && (won.length !== 1 || !hasLoser))) {
      problems.note('two creates with one address', statusesOf(replies))
    }
    if (won[0] !== undefined) noteCreated(account, won[0])
    else if (!replies.every(reply => reply.kind === 'unavailable')) addCreated(account)
    release(account)
  }

  /** One create and its retry at once, through both services. */
  async function createTwice(): Promise<void> {
    const account = newAccount({ hasKey: true })
    const replies = await askBothToCreate(account)
    const made = answersOf(replies, 201)
    const isFine = replies.every(
      reply => reply.kind !== 'answer' || reply.status === 201 || reply.status === 409,
    )
    if (!isFine || new Set(made.map(({ json }) => json.id)).size > 1) {
      problems.note('a create and its retry at once', statusesOf(replies))
    }
    if (made[0] !== undefined) noteCreated(account, made[0])
    else addCreated(account)
    release(account)
    if (!isCertain(account)) await repeat(account)
  }

  /** Two updates of the same version at once: one of them wins. */
  async function updateTwice(account: Account): Promise<void> {
    const { etag } = account
    if (etag === undefined) return
    const both = await Promise.all([rename(account, etag), rename(account, etag)])
    const replies = both.map(({ reply }) => reply)
    const won = both.filter(({ reply }) => reply.kind === 'answer' && reply.status === 200)
    const unknown = both.filter(({ reply }) => reply.kind === 'unknown')
    const hasLoser = answersOf(replies, 412).length > 0
    if (won.length > 1 || (won.length + unknown.length === 0 && hasLoser)) {
      problems.note('two updates of one version', statusesOf(replies))
    }
    if (won[0] !== undefined) return noteRenamed(account, won[0])
    for (const { name } of unknown) addPossible(account, name)
  }

  async function verify(wrongPassword?: string): Promise<void> {
    const account = withPassword.shift()
    if (account === undefined) return create({})
    const { email, password } = account
    const reply = await client.ask({
      ...{ method: 'POST', path: '/password-verifications', route: '/password-verifications' },
      key: 'verifier',
      body: JSON.stringify({ user: { email, password: wrongPassword ?? password } }),
    })
    putBack(account)
    if (reply.kind !== 'answer' || reply.mayBeStale) return
    if (reply.status !== (wrongPassword === undefined ? 200 : 422)) wrong('a verification', reply)
  }

  async function sendMalformed(): Promise<void> {
    const [asked, status] = MALFORMED[ledger.nextSerial() % MALFORMED.length] ?? []
    if (asked === undefined) return
    const reply = await client.ask(asked)
    if (reply.kind === 'answer' && reply.status !== status) {
      wrong(`${asked.method} ${asked.path}`, reply, `not ${status}:`)
    }
  }

  async function useRevokedKey(): Promise<void> {
    const from = Date.now()
    const wasRevoked = windows.met('revoked key', from)
    const reply = await get('/users/1', { key: 'revoked' })
    if (reply.kind !== 'answer') return
    const isRefused = reply.status === 401
    if (wasRevoked && !isRefused) wrong('a revoked key', reply)
    if (isRefused && !wasRevoked && !windows.met('key is being revoked', from)) {
      wrong('a key before it was revoked', reply)
    }
  }

  async function askHealth(): Promise<void> {
    const path = ledger.nextSerial() % 2 === 0 ? '/livez' : '/readyz'
    const reply = await get(path, { key: 'none' })
    if (reply.kind === 'answer' && reply.status !== 200) wrong(path, reply)
  }

  const update = (isConditional: boolean) =>
    onAccount(async account => {
      noteRenamed(account, await rename(account, isConditional ? account.etag : undefined))
    })

  return [
    [24, onAccount(read)],
    [10, onAccount(readUnchanged)],
    [3, list],
    [4, onAccount(find)],
    [6, () => create({})],
    [6, () => create({ hasKey: true })],
    [0.4, () => create({ password: `secret ${ledger.nextSerial()}` })],
    [8, update(false)],
    [8, update(true)],
    [5, onAccount(remove)],
    [2, onAccount(replay)],
    [1, createTwins],
    [1, createTwice],
    [1, onAccount(updateTwice)],
    [0.5, () => verify()],
    [0.3, () => verify('not the password')],
    [6, sendMalformed],
    [1, useRevokedKey],
    [1, askHealth],
  ]
}

function answersOf(replies: readonly Reply[], status: number): Answered[] {
  return replies.filter(
    (reply): reply is Answered => reply.kind === 'answer' && reply.status === status,
  )
}

function isTaken({ status, json }: Answered): boolean {
  return status === 422 && json?.reason === 'email_taken'
}

function statusesOf(replies: readonly Reply[]): string {
  return replies.map(reply => (reply.kind === 'answer' ? reply.status : reply.kind)).join(', ')
}
