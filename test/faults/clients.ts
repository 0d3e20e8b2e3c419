import { createRandom } from '../support/faults.ts'
import { createKeepAliveClient, type KeepAliveClient } from '../support/keep-alive-client.ts'
import type { RawAnswer } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

/** A state of a user. */
interface Version {
  /** `undefined` for no user. */
  readonly name: string | undefined
  /** The JSON in the response. */
  body?: string
  /** By `process.hrtime`. */
  acknowledgedAt?: bigint
}

/** A user that one client writes, one write at a time. */
interface WrittenUser {
  readonly client: number
  readonly email: string
  /** Its Idempotency-Key. */
  readonly key: string | undefined
  readonly createBody: string
  id?: number
  firstAnswer?: string
  /** From its absence on, in order. Those after the last acknowledged one may have been written or not. */
  readonly versions: Version[]
}

export interface ClientsOptions {
  /** How many write at the same time. */
  readonly clients?: number
  /** Part of their names and addresses, if there are others. */
  readonly label?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly random?: () => number
  /** Waits before each request. */
  readonly pause?: () => Promise<unknown>
}

/** Why a request may get 503. */
const PASSING = ['storage_unavailable', 'outcome_unknown', 'overloaded', 'shutting_down']

export type Clients = ReturnType<typeof createClients>

/** Clients that create users, with and without keys, change, delete, read and repeat them, and know what must be there. */
export function createClients(options: ClientsOptions = {}) {
  const { clients = 16, label = '', headers = {}, random = createRandom(), pause } = options
  const users: WrittenUser[] = []
  const own = Array.from({ length: clients }, (): WrittenUser[] => [])
  const written = new Array<number>(clients).fill(0)
  const owners = new Map<number, WrittenUser>()
  const answers: Record<string, number> = {}
  const problems: string[] = []
  const cutAt: bigint[] = []
  let isStopping = false
  let serial = 0

  /** `undefined` if the connection is gone. */
  async function send(
    client: KeepAliveClient,
    line: string,
    { body, key }: { body?: string; key?: string | undefined } = {},
  ): Promise<RawAnswer | undefined> {
    const [method = '', path = ''] = line.split(' ')
    const askedAt = process.hrtime.bigint()
    const answer = await client.ask({
      ...{ method, path, ...(body !== undefined && { body }) },
      headers: { ...headers, ...(key !== undefined && { 'Idempotency-Key': key }) },
    })
    if (answer === undefined) {
      cutAt.push(askedAt)
      return undefined
    }
    const reason = reasonOf(answer)
    const kind = `${method} ${answer.status} ${reason}`.trim()
    answers[kind] = (answers[kind] ?? 0) + 1
    const isPassing = PASSING.includes(reason) && answer.headers['retry-after'] !== undefined
    if (answer.status >= 500 && !isPassing)
      problems.push(`${line}: ${answer.status} ${answer.body}`)
    return answer
  }

  function expectAnswer(answer: RawAnswer, isRight: boolean, { email }: WrittenUser): void {
    if (isRight || answer.status >= 500) return
    problems.push(`${answer.status} for ${email}: ${answer.body}`)
  }

  /** Sends what makes a version of a user. */
  async function write(
    client: KeepAliveClient,
    user: WrittenUser,
    request: { line: string; body?: string; key?: string | undefined; version: Version },
  ): Promise<RawAnswer | undefined> {
    const { line, version } = request
    const isFirst = !user.versions.includes(version)
    if (isFirst) user.versions.push(version)
    const answer = await send(client, line, request)
    if (answer === undefined || reasonOf(answer) === 'outcome_unknown') return answer
    if (answer.status < 300) {
      version.body = answer.body
      version.acknowledgedAt = process.hrtime.bigint()
      written[user.client] = (written[user.client] ?? 0) + 1
    } else if (isFirst) user.versions.splice(user.versions.indexOf(version), 1)
    expectAnswer(answer, answer.status < 300, user)
    return answer
  }

  async function sendCreate(client: KeepAliveClient, user: WrittenUser) {
    const { createBody: body, key } = user
    const version = user.versions[1] ?? { name: JSON.parse(body).user.name }
    const answer = await write(client, user, { line: 'POST /users', body, key, version })
    if (answer?.status !== 201) return answer
    user.firstAnswer = answer.body
    claim(user, JSON.parse(answer.body).id)
    return answer
  }

  function claim(user: WrittenUser, id: number): void {
    const owner = owners.get(id) ?? user
    if (owner !== user) problems.push(`${owner.email} and ${user.email} have the id ${id}`)
    owners.set(id, user)
    user.id = id
  }

  function create(client: KeepAliveClient, index: number) {
    const email = `${label}u${++serial}@example.com`
    const user: WrittenUser = {
      client: index,
      email,
      key: random() < 0.5 ? `key-${label}${serial}` : undefined,
      createBody: JSON.stringify({ user: { name: `First w${label}${serial}x`, email } }),
      versions: [{ name: undefined, acknowledgedAt: 0n }],
    }
    users.push(user)
    own[index]?.push(user)
    return sendCreate(client, user)
  }

  function rename(client: KeepAliveClient, user: WrittenUser) {
    const name = `Name w${label}${++serial}x`
    const body = JSON.stringify({ user: { name } })
    return write(client, user, { line: `PUT /users/${user.id}`, body, version: { name } })
  }

  function remove(client: KeepAliveClient, user: WrittenUser) {
    return write(client, user, { line: `DELETE /users/${user.id}`, version: { name: undefined } })
  }

  async function replay(client: KeepAliveClient, user: WrittenUser) {
    const { createBody: body, key, firstAnswer } = user
    const answer = await send(client, 'POST /users', { body, key })
    if (answer === undefined) return undefined
    const isSame = answer.status === 201 && answer.body === firstAnswer
    const isReplayed = isSame && answer.headers['idempotency-replayed'] === 'true'
    const isGone = user.versions.at(-1)?.name === undefined
    expectAnswer(answer, isGone ? answer.status === 410 : isReplayed, user)
    return answer
  }

  async function read(client: KeepAliveClient, user: WrittenUser) {
    const answer = await send(client, `GET /users/${user.id}`)
    if (answer === undefined) return undefined
    const json = answer.status === 200 ? answer.body : undefined
    const isKnown = versionsThatMayBe(user).some(version => isShown(version, json))
    expectAnswer(answer, (json !== undefined || answer.status === 404) && isKnown, user)
    return answer
  }

  function step(client: KeepAliveClient, index: number) {
    const mine = own[index] ?? []
    // Often the newest one: after a delete only its id could be given again by mistake.
    const user = random() < 0.3 ? mine.at(-1) : mine[Math.floor(random() * mine.length)]
    const choice = random()
    if (user?.id === undefined || choice < 0.3) return create(client, index)
    const latest = user.versions.at(-1)
    const canRepeat = user.key !== undefined && latest?.acknowledgedAt !== undefined
    if (choice < 0.4 && canRepeat) return replay(client, user)
    if (latest?.name === undefined) return create(client, index)
    if (choice < 0.65) return rename(client, user)
    return choice < 0.8 ? remove(client, user) : read(client, user)
  }

  /** Finds out what became of a user. From now on it must stay so. */
  async function settleUser(client: KeepAliveClient, user: WrittenUser): Promise<void> {
    if (user.id === undefined && user.key !== undefined) {
      await sendCreate(client, user)
      return
    }
    const byEmail = `GET /users?email=${user.email}`
    const answer = await send(client, user.id === undefined ? byEmail : `GET /users/${user.id}`)
    const shown = answer?.status === 200 ? JSON.parse(answer.body) : undefined
    const found = Array.isArray(shown) ? shown[0] : shown
    const json = found && JSON.stringify(found)
    const version = versionsThatMayBe(user).find(each => isShown(each, json))
    if (version === undefined) {
      problems.push(`${user.email} is ${json ?? 'gone'}, not one of ${shownOf(user)}`)
      return
    }
    user.versions.splice(user.versions.indexOf(version) + 1)
    version.acknowledgedAt ??= process.hrtime.bigint()
    version.body ??= json
    if (found !== undefined) claim(user, found.id)
  }

  return {
    /** Numbers of responses, such as `PUT 200` or `GET 503 storage_unavailable`. */
    answers,
    /** What no response may be. */
    problems,
    /** When requests were sent that got no response. */
    cutAt,
    acknowledged: () => written.reduce((sum, count) => sum + count, 0),
    /** All write at once until the service is gone, `stop` is called or each has `most` writes acknowledged. */
    write: async (port: number, most = Number.POSITIVE_INFINITY): Promise<void> => {
      const writing = own.map(async (_, index) => {
        const client = createKeepAliveClient(port)
        const last = (written[index] ?? 0) + most
        while (!isStopping && (written[index] ?? 0) < last) {
          await pause?.()
          if ((await step(client, index)) === undefined) break
        }
        client.close()
      })
      await Promise.all(writing)
    },
    stop: () => {
      isStopping = true
    },
    untilEachHasWritten: async (): Promise<void> => {
      const before = [...written]
      await until(() => written.every((count, index) => count > (before[index] ?? 0)))
    },
    /** Settles what nobody knows: repeats creates with keys, and looks at the rest. */
    settle: async (port: number): Promise<void> => {
      const client = createKeepAliveClient(port)
      const isOpen = ({ versions }: WrittenUser) => versions.at(-1)?.acknowledgedAt === undefined
      for (const user of users.filter(isOpen)) await settleUser(client, user)
      client.close()
    },
    /**
     * The differences between all users after an id and what must be there: all writes that were acknowledged, or those
     * `before` a time, and nothing that was refused.
     */
    compare: async (
      url: string,
      { before, afterId = 0 }: { before?: bigint | undefined; afterId?: number } = {},
    ): Promise<string[]> => {
      const rows = await listUsers(url, afterId, headers)
      const differences: string[] = []
      for (const user of users) {
        const json = rows.get(user.email)
        rows.delete(user.email)
        if (versionsThatMayBe(user, before).some(version => isShown(version, json))) continue
        differences.push(`${user.email} is ${json ?? 'gone'}, not one of ${shownOf(user, before)}`)
      }
      for (const [email, json] of rows) {
        if (email.startsWith(label)) differences.push(`nobody created ${json}`)
      }
      return differences.slice(0, 20)
    },
  }
}

function reasonOf({ status, body }: RawAnswer): string {
  return status === 503 ? JSON.parse(body).reason : ''
}

function versionsThatMayBe({ versions }: WrittenUser, before?: bigint): Version[] {
  const isSure = ({ acknowledgedAt: at }: Version) =>
    at !== undefined && (before === undefined || at < before)
  return versions.slice(versions.findLastIndex(isSure))
}

function isShown({ name, body }: Version, json: string | undefined): boolean {
  if (json === undefined) return name === undefined
  return name === JSON.parse(json).name && (body === undefined || body === json)
}

function shownOf(user: WrittenUser, before?: bigint): string {
  return JSON.stringify(versionsThatMayBe(user, before).map(({ name, body }) => body ?? name))
}

/** The JSON of each user after an id, by e-mail. */
async function listUsers(url: string, afterId: number, headers: Record<string, string>) {
  const found = new Map<string, string>()
  for (let path = '/users?sort=-id&per_page=1000'; path !== ''; ) {
    const response = await fetch(url + path, { headers })
    const page = (await response.json()) as { id: number; email: string }[]
    const newer = page.filter(({ id }) => id > afterId)
    for (const user of newer) found.set(user.email, JSON.stringify(user))
    const next = /<([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1] ?? ''
    path = newer.length < page.length ? '' : next
  }
  return found
}
