import { randomUUID } from 'node:crypto'
import type { Ask, Client, Reply } from './client.ts'
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

type Answered = Extract<Reply, { kind: 'answer' }>

/** How long nobody touches a user after a write with an unknown outcome: it may still be on its way. */
const QUARANTINE_MS = 5000

/** One of them is one thing that a client does: a request or a few. */
export type Action = () => Promise<void>

/** What clients do, with its share of all. */
export function createTraffic(parts: TrafficParts): readonly { weight: number; action: Action }[] {
  const { site, client, ledger, windows, problems } = parts
  /** They stay as they are, because they are few. */
  const withPassword: Account[] = []

  function wrong(what: string, reply: Answered, wanted = ''): void {
    problems.note(`wrong answer to ${what}`, `${wanted} ${reply.status} ${reply.text}`.trim())
  }

  function putBack(account: Account): void {
    if (account.password === undefined) ledger.putBack(account)
    else withPassword.push(account)
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

  /** Lets nobody else touch a user meanwhile. */
  async function withAccount(work: (account: Account) => Promise<void>): Promise<void> {
    const account = ledger.take()
    if (account === undefined) return create()
    try {
      await work(account)
    } finally {
      release(account)
    }
  }

  function newAccount({ hasKey = false, password }: { hasKey?: boolean; password?: string } = {}) {
    const serial = ledger.nextSerial()
    const email = `u${serial}@soak.example`
    const name = `First w${serial}x`
    const user = { name, email, ...(password !== undefined && { password }) }
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

  function nameIn(account: Account): string {
    return JSON.parse(account.createBody).user.name
  }

  function noteCreated(account: Account, reply: Reply): void {
    if (reply.kind === 'unknown') addPossible(account, nameIn(account))
    if (reply.kind !== 'answer') return
    if (reply.status !== 201) {
      wrong('a create', reply)
      return
    }
    if (reply.headers.location !== `/users/${reply.json.id}`) wrong('a create (Location)', reply)
    ledger.settle(account, reply.json, reply.headers.etag)
  }

  async function createWith(options: { hasKey?: boolean; password?: string }): Promise<void> {
    const account = newAccount(options)
    noteCreated(account, await askToCreate(account))
    release(account)
    if (!isCertain(account) && account.idempotencyKey !== undefined) await repeat(account)
  }

  /** After an unknown outcome the client repeats with the same key until it knows. */
  async function repeat(account: Account): Promise<void> {
    for (let attempt = 0; attempt < 60; attempt++) {
      await new Promise(resolve => setTimeout(resolve, 1000).unref())
      const reply = await askToCreate(account)
      if (reply.kind !== 'answer' || reply.status === 409) continue
      if (reply.status !== 201) return wrong('a repeated create', reply)
      return ledger.settle(account, reply.json, reply.headers.etag)
    }
  }

  const create = () => createWith({})

  async function update(options: { isConditional: boolean }): Promise<void> {
    await withAccount(async account => {
      const { etag } = account
      const isConditional = options.isConditional && etag !== undefined
      const reply = await askToRename(account, isConditional ? { 'If-Match': etag } : {})
      noteRenamed(account, reply)
    })
  }

  interface Renaming {
    readonly name: string
    readonly reply: Reply
  }

  async function askToRename(
    account: Account,
    headers: Readonly<Record<string, string>>,
  ): Promise<Renaming> {
    const name = `Later w${ledger.nextSerial()}x`
    const reply = await client.ask({
      ...{ method: 'PUT', path: `/users/${account.id}`, route: '/users/{id}', headers },
      body: JSON.stringify({ user: { name } }),
    })
    return { name, reply }
  }

  function noteRenamed(account: Account, { name, reply }: Renaming): void {
    if (reply.kind === 'unknown') addPossible(account, name)
    if (reply.kind !== 'answer') return
    if (reply.status === 200) {
      if (reply.json.name !== name) wrong('an update', reply)
      ledger.settle(account, reply.json, reply.headers.etag)
    } else if (reply.status === 404 && account.names.includes(undefined)) {
      account.names = [undefined]
    } else wrong('an update', reply)
  }

  async function remove(): Promise<void> {
    await withAccount(async account => {
      const reply = await client.ask({
        ...{ method: 'DELETE', path: `/users/${account.id}`, route: '/users/{id}' },
      })
      if (reply.kind === 'unknown') addPossible(account, undefined)
      if (reply.kind !== 'answer') return
      const wasMaybeGone = account.names.includes(undefined)
      if (reply.status === 204 || (reply.status === 404 && wasMaybeGone))
        account.names = [undefined]
      else wrong('a delete', reply)
    })
  }

  async function read(options: { isConditional: boolean }): Promise<void> {
    await withAccount(async account => {
      const { etag } = account
      const headers =
        options.isConditional && etag !== undefined ? { 'If-None-Match': etag } : undefined
      const reply = await client.ask({
        ...{ method: 'GET', path: `/users/${account.id}`, route: '/users/{id}', key: 'reader' },
        ...(headers && { headers }),
      })
      if (reply.kind !== 'answer' || reply.mayBeStale) return
      if (headers !== undefined) {
        if (reply.status !== 304) wrong('a read of an unchanged user', reply)
        return
      }
      const seen = reply.status === 200 ? reply.json : undefined
      if (![200, 404].includes(reply.status) || !account.names.includes(seen?.name)) {
        wrong('a read', reply, `not one of ${account.names}:`)
      } else if (account.updatedAt !== undefined && seen?.updated_at !== account.updatedAt) {
        wrong('a read (updated_at)', reply)
      } else if (seen !== undefined) ledger.settle(account, seen, reply.headers.etag)
      else account.names = [undefined]
    })
  }

  async function list(): Promise<void> {
    const sort = ['id', '-id', 'name', '-created_at', 'updated_at'][ledger.nextSerial() % 5]
    const reply = await client.ask({
      ...{ method: 'GET', route: '/users', key: 'reader' },
      path: `/users?per_page=20&count=true&sort=${sort}`,
    })
    if (reply.kind !== 'answer') return
    if (reply.status !== 200 || reply.json.length > 20) return wrong('a list', reply)
    const next = /<([^>]+)>; rel="next"/.exec(String(reply.headers.link ?? ''))?.[1]
    if (next === undefined) return
    const { pathname, search } = new URL(next, 'http://localhost')
    const second = await client.ask({
      ...{ method: 'GET', route: '/users', key: 'reader', path: pathname + search },
    })
    if (second.kind !== 'answer') return
    if (second.status !== 200) return wrong('a next page', second)
    if (sort === 'id' && second.json[0] && !(second.json[0].id > reply.json.at(-1).id)) {
      wrong('a next page (order)', second)
    }
  }

  async function find(): Promise<void> {
    await withAccount(async account => {
      const isSure = isCertain(account)
      const word = /w\d+x/.exec(account.names[0] ?? '')?.[0] ?? 'soak'
      const reply = await client.ask({
        ...{ method: 'GET', path: `/users?q=${word}`, route: '/users', key: 'reader' },
      })
      if (reply.kind !== 'answer' || reply.mayBeStale) return
      if (reply.status !== 200) return wrong('a list with q', reply)
      const isThere = reply.json.some((user: { id: number }) => user.id === account.id)
      if (isSure && !isThere) wrong('a list with q', reply, `${account.id} by ${word}:`)
    })
  }

  async function replay(): Promise<void> {
    await withAccount(async account => {
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
    })
  }

  async function takeTaken(): Promise<void> {
    await withAccount(async account => {
      if (!isCertain(account)) return
      const body = JSON.stringify({ user: { name: 'Twin', email: account.email.toUpperCase() } })
      const reply = await client.ask({ method: 'POST', path: '/users', route: '/users', body })
      if (reply.kind === 'answer' && reply.json?.reason !== 'email_taken') {
        wrong('a create with a taken address', reply)
      } else if (reply.kind === 'answer' && reply.status !== 422) wrong('a taken address', reply)
    })
  }

  async function updateStale(): Promise<void> {
    await withAccount(async account => {
      if (!isCertain(account)) return
      const { reply } = await askToRename(account, { 'If-Match': '"stale"' })
      if (reply.kind === 'answer' && reply.status !== 412) wrong('an update by a stale tag', reply)
    })
  }

  /** Two creates with one address at once: one of them wins. */
  async function createTwins(): Promise<void> {
    const account = newAccount()
    const replies = await Promise.all(
      site.services.map(service => askToCreate(account, { service })),
    )
    const won = answered(replies, 201)
    const isRefusal = (reply: Answered) =>
      reply.status === 422 && reply.json?.reason === 'email_taken'
    if (replies.every(reply => reply.kind === 'answer')) {
      if (won.length !== 1 || replies.filter(isRefusal).length !== 1) {
        problems.note('two creates with one address', statuses(replies))
      }
    } else if (won.length > 1) problems.note('two creates with one address', statuses(replies))
    if (won[0] !== undefined) noteCreated(account, won[0])
    else if (!replies.every(reply => reply.kind === 'unavailable')) {
      addPossible(account, nameIn(account))
    }
    release(account)
  }

  /** One create and its retry at once, through both services. */
  async function createTwice(): Promise<void> {
    const account = newAccount({ hasKey: true })
    const replies = await Promise.all(
      site.services.map(service => askToCreate(account, { service })),
    )
    const made = answered(replies, 201)
    const ids = new Set(made.map(({ json }) => json.id))
    const isFine = replies.every(
      reply => reply.kind !== 'answer' || reply.status === 201 || reply.status === 409,
    )
    if (ids.size > 1 || !isFine) problems.note('a create and its retry at once', statuses(replies))
    if (made[0] !== undefined) noteCreated(account, made[0])
    else addPossible(account, nameIn(account))
    release(account)
    if (!isCertain(account)) await repeat(account)
  }

  /** Two updates of the same version at once: one of them wins. */
  async function updateTwice(): Promise<void> {
    await withAccount(async account => {
      const { etag } = account
      if (etag === undefined) return
      const both = await Promise.all([1, 2].map(() => askToRename(account, { 'If-Match': etag })))
      const replies = both.map(({ reply }) => reply)
      const won = both.filter(({ reply }) => reply.kind === 'answer' && reply.status === 200)
      const unknown = both.filter(({ reply }) => reply.kind === 'unknown')
      const lost = answered(replies, 412)
      if (won.length > 1 || (won.length + unknown.length === 0 && lost.length > 0)) {
        problems.note('two updates of one version', statuses(replies))
      }
      if (won[0] !== undefined) return noteRenamed(account, won[0])
      for (const { name } of unknown) addPossible(account, name)
    })
  }

  async function verify(options: { isRight: boolean }): Promise<void> {
    const account = withPassword.shift()
    if (account === undefined) return create()
    const { email } = account
    const password = options.isRight ? account.password : 'not the password'
    const reply = await client.ask({
      ...{ method: 'POST', path: '/password-verifications', route: '/password-verifications' },
      ...{ key: 'verifier', body: JSON.stringify({ user: { email, password } }) },
    })
    putBack(account)
    if (reply.kind !== 'answer' || reply.mayBeStale) return
    if (reply.status !== (options.isRight ? 200 : 422)) wrong('a verification', reply)
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
    const reply = await client.ask({
      ...{ method: 'GET', path: '/users/1', route: '/users/{id}', key: 'revoked' },
    })
    if (reply.kind !== 'answer') return
    const isRefused = reply.status === 401
    if (wasRevoked && !isRefused) wrong('a revoked key', reply)
    if (isRefused && !windows.met('key is being revoked', from) && !wasRevoked) {
      wrong('a key before it was revoked', reply)
    }
  }

  async function askHealth(): Promise<void> {
    const path = ledger.nextSerial() % 2 === 0 ? '/livez' : '/readyz'
    const reply = await client.ask({ method: 'GET', path, route: path, key: 'none' })
    if (reply.kind === 'answer' && reply.status !== 200) wrong(path, reply)
  }

  return [
    { weight: 24, action: () => read({ isConditional: false }) },
    { weight: 10, action: () => read({ isConditional: true }) },
    { weight: 3, action: list },
    { weight: 4, action: find },
    { weight: 6, action: create },
    { weight: 6, action: () => createWith({ hasKey: true }) },
    { weight: 0.4, action: () => createWith({ password: `secret ${ledger.nextSerial()}` }) },
    { weight: 8, action: () => update({ isConditional: false }) },
    { weight: 8, action: () => update({ isConditional: true }) },
    { weight: 5, action: remove },
    { weight: 2, action: replay },
    { weight: 2, action: takeTaken },
    { weight: 2, action: updateStale },
    { weight: 1, action: createTwins },
    { weight: 1, action: createTwice },
    { weight: 1, action: updateTwice },
    { weight: 0.5, action: () => verify({ isRight: true }) },
    { weight: 0.3, action: () => verify({ isRight: false }) },
    { weight: 6, action: sendMalformed },
    { weight: 1, action: useRevokedKey },
    { weight: 1, action: askHealth },
  ]
}

function answered(replies: readonly Reply[], status: number): Answered[] {
  return replies.filter(
    (reply): reply is Answered => reply.kind === 'answer' && reply.status === status,
  )
}

function statuses(replies: readonly Reply[]): string {
  return replies.map(reply => (reply.kind === 'answer' ? reply.status : reply.kind)).join(', ')
}
