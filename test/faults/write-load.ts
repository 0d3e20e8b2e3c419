import { createKeepAliveClient, type KeepAliveClient } from '../support/keep-alive-client.ts'
import type { RawAnswer } from '../support/raw-http.ts'
import type { UserVersion, WrittenUser } from './written-users.ts'

export interface Writer {
  /** All users that it wrote, except those that were never created. */
  readonly users: WrittenUser[]
  /** Number of its acknowledged writes. */
  readonly acknowledged: number
  /** Writes on one connection, one request after another, until it ends or `most` writes are acknowledged. */
  write(port: number, most?: number): Promise<void>
  /** Repeats the create of a user with an Idempotency-Key. */
  retry(port: number, user: WrittenUser): Promise<void>
}

export interface WriterOptions {
  /** Part of its names, e-mails and keys. No other writer may have the same one. */
  readonly label: string
  readonly random: () => number
  /** The user of each id, for all writers. */
  readonly owners: Map<number, WrittenUser>
}

const KEPT_SHARE = 0.5

/** How often the newest user is chosen: after a delete, only its id could be used again by mistake. */
const NEWEST_SHARE = 0.3

/** A client that creates users, with and without keys, changes, deletes and retries them. */
export function createWriter({ label, random, owners }: WriterOptions): Writer {
  const users: WrittenUser[] = []
  let serial = 0
  let acknowledged = 0

  const newFields = () => {
    serial++
    return { name: `Name ${label} ${serial}`, email: `${label}.${serial}@example.com` }
  }

  async function step(client: KeepAliveClient): Promise<boolean> {
    const choice = random()
    const user = random() < NEWEST_SHARE ? users.at(-1) : users[Math.floor(random() * users.length)]
    const isThere = user?.versions.at(-1)?.fields !== undefined
    if (user === undefined || !isThere || choice < 0.4) return create(client)
    if (choice < 0.7) return update(client, user)
    if (choice < 0.85) return remove(client, user)
    return user.idempotencyKey === undefined ? create(client) : replay(client, user)
  }

  function create(client: KeepAliveClient): Promise<boolean> {
    const fields = newFields()
    const user: WrittenUser = {
      idempotencyKey: random() < KEPT_SHARE ? `key-${label}-${serial}` : undefined,
      createBody: JSON.stringify({ user: fields }),
      versions: [{ fields: undefined, acknowledgedAt: 0n }, { fields }],
    }
    users.push(user)
    return sendCreate(client, user)
  }

  async function sendCreate(client: KeepAliveClient, user: WrittenUser): Promise<boolean> {
    const { idempotencyKey, createBody: body } = user
    const headers = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }
    const answer = await client.ask({ method: 'POST', path: '/users', headers, body })
    if (answer === undefined) return false
    requireStatus(answer, 201, body)
    if (answer.headers['idempotency-replayed'] !== undefined) {
      throw new Error(`${idempotencyKey} is replayed, but created no user: ${answer.body}`)
    }
    user.firstAnswer = answer.body
    user.id = JSON.parse(answer.body).id as number
    claimId(owners, user)
    acknowledge(user.versions[1], answer)
    return true
  }

  async function replay(client: KeepAliveClient, user: WrittenUser): Promise<boolean> {
    const { idempotencyKey = '', createBody: body } = user
    const headers = { 'Idempotency-Key': idempotencyKey }
    const answer = await client.ask({ method: 'POST', path: '/users', headers, body })
    if (answer === undefined) return false
    if (user.versions.at(-1)?.fields === undefined) {
      requireStatus(answer, 410, body)
      return true
    }
    requireStatus(answer, 201, body)
    if (answer.body !== user.firstAnswer || answer.headers['idempotency-replayed'] !== 'true') {
      throw new Error(`${idempotencyKey} got ${user.firstAnswer} and then ${answer.body}`)
    }
    return true
  }

  async function update(client: KeepAliveClient, user: WrittenUser): Promise<boolean> {
    const fields = newFields()
    const version: UserVersion = { fields }
    user.versions.push(version)
    const body = JSON.stringify({ user: fields })
    const answer = await client.ask({ method: 'PUT', path: `/users/${user.id}`, body })
    if (answer === undefined) return false
    requireStatus(answer, 200, body)
    acknowledge(version, answer)
    return true
  }

  async function remove(client: KeepAliveClient, user: WrittenUser): Promise<boolean> {
    const version: UserVersion = { fields: undefined }
    user.versions.push(version)
    const answer = await client.ask({ method: 'DELETE', path: `/users/${user.id}` })
    if (answer === undefined) return false
    requireStatus(answer, 204, user.createBody)
    acknowledge(version, answer)
    return true
  }

  function acknowledge(version: UserVersion | undefined, { body }: RawAnswer): void {
    if (version === undefined) return
    version.acknowledgedAt = process.hrtime.bigint()
    version.body = body
    acknowledged++
  }

  async function connected<T>(port: number, work: (client: KeepAliveClient) => Promise<T>) {
    const client = createKeepAliveClient(port)
    return work(client).finally(client.close)
  }

  return {
    users,
    get acknowledged() {
      return acknowledged
    },
    write: (port, most = Number.POSITIVE_INFINITY) =>
      connected(port, async client => {
        const last = acknowledged + most
        while (acknowledged < last && (await step(client)));
      }),
    retry: (port, user) =>
      connected(port, async client => {
        const send = user.firstAnswer === undefined ? sendCreate : replay
        if (!(await send(client, user))) throw new Error('the service is gone')
      }),
  }
}

/** Notes the user of an id. Throws if another user had it before. */
export function claimId(owners: Map<number, WrittenUser>, user: WrittenUser): void {
  const id = user.id as number
  const owner = owners.get(id) ?? user
  if (owner !== user) throw new Error(`id ${id} is used twice: ${owner.createBody}`)
  owners.set(id, user)
}

function requireStatus({ status, body }: RawAnswer, expected: number, sent: string): void {
  if (status !== expected) throw new Error(`${status} for ${sent}: ${body}`)
}
