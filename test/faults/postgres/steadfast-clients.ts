import { createKeepAliveClient, type KeepAliveClient } from '../../support/keep-alive-client.ts'
import type { RawAnswer } from '../../support/raw-http.ts'
import { until } from '../../support/until.ts'

/** A user that one client writes, one write at a time. */
interface OwnedUser {
  readonly email: string
  readonly key: string
  id?: number
  /** The names that it may have. More than one after writes with unknown outcomes; `undefined` for no user. */
  names: (string | undefined)[]
}

/** Clients that write and read through an outage, and know what must be there afterwards. */
export interface SteadfastClients {
  /** Numbers of responses, such as `PUT 200` or `GET 503 storage_unavailable`. */
  readonly answers: Readonly<Record<string, number>>
  /** What no response may be. */
  readonly problems: readonly string[]
  /** Ends them after their running requests. */
  stop(): Promise<void>
  /** Resolves after the next acknowledged write of each client. */
  untilEachHasWritten(): Promise<void>
  /** Settles unknown outcomes by retries, then compares all users with those of the service. Returns the differences. */
  compare(port: number): Promise<readonly string[]>
}

export interface SteadfastOptions {
  readonly port: number
  readonly clients: number
  readonly random: () => number
}

const PASSING = ['storage_unavailable', 'outcome_unknown', 'overloaded']

export function startSteadfastClients(options: SteadfastOptions): SteadfastClients {
  const { port, clients, random } = options
  const answers: Record<string, number> = {}
  const problems: string[] = []
  const all: OwnedUser[] = []
  const written = new Array<number>(clients).fill(0)
  let isStopping = false
  let serial = 0

  function note(method: string, answer: RawAnswer | undefined): string {
    const { status = 0, headers = {}, body = '' } = answer ?? {}
    const reason = status === 503 ? (JSON.parse(body).reason as string) : ''
    const name = `${method} ${status}${reason && ` ${reason}`}`
    answers[name] = (answers[name] ?? 0) + 1
    const isFine =
      status === 503 ? PASSING.includes(reason) && headers['retry-after'] : status < 500
    if (!isFine || status === 0) problems.push(`${name}: ${body}`)
    return reason
  }

  async function create(client: KeepAliveClient): Promise<OwnedUser | undefined> {
    serial++
    const user: OwnedUser = { email: `u${serial}@example.com`, key: `key-${serial}`, names: [] }
    all.push(user)
    return (await sendCreate(client, user)) ? user : undefined
  }

  /** Whether the user is there for certain. */
  async function sendCreate(client: KeepAliveClient, user: OwnedUser): Promise<boolean> {
    const name = `First ${user.email}`
    const answer = await client.ask({
      method: 'POST',
      path: '/users',
      headers: { 'Idempotency-Key': user.key },
      body: JSON.stringify({ user: { name, email: user.email } }),
    })
    const reason = note('POST', answer)
    if (answer?.status === 201) {
      user.id = JSON.parse(answer.body).id
      user.names = [name]
      return true
    }
    user.names =
      reason === 'outcome_unknown' || user.names.length > 1 ? [undefined, name] : [undefined]
    return false
  }

  async function rename(client: KeepAliveClient, user: OwnedUser): Promise<boolean> {
    serial++
    const name = `Name ${serial}`
    const body = JSON.stringify({ user: { name } })
    const answer = await client.ask({ method: 'PUT', path: `/users/${user.id}`, body })
    const reason = note('PUT', answer)
    if (answer?.status === 200) user.names = [name]
    else if (reason === 'outcome_unknown') user.names.push(name)
    else if (answer?.status === 404 && !user.names.includes(undefined))
      problems.push(`lost ${user.id}`)
    return answer?.status === 200
  }

  async function remove(client: KeepAliveClient, user: OwnedUser): Promise<boolean> {
    const answer = await client.ask({ method: 'DELETE', path: `/users/${user.id}` })
    const reason = note('DELETE', answer)
    if (answer?.status === 204) user.names = [undefined]
    else if (reason === 'outcome_unknown') user.names.push(undefined)
    return answer?.status === 204
  }

  async function read(client: KeepAliveClient, user: OwnedUser): Promise<void> {
    const answer = await client.ask({ method: 'GET', path: `/users/${user.id}` })
    note('GET', answer)
    if (answer?.status !== 200 && answer?.status !== 404) return
    const name = answer.status === 200 ? (JSON.parse(answer.body).name as string) : undefined
    if (!user.names.includes(name)) problems.push(`${user.id} is ${name}, not ${user.names}`)
  }

  async function live(index: number): Promise<void> {
    const client = createKeepAliveClient(port)
    const own: OwnedUser[] = []
    while (!isStopping) {
      const user = own[Math.floor(random() * own.length)]
      const choice = random()
      let isWritten = false
      if (user === undefined || choice < 0.3) {
        const made = await create(client)
        if (made !== undefined) own.push(made)
        isWritten = made !== undefined
      } else if (choice < 0.6) isWritten = await rename(client, user)
      else if (choice < 0.95) await read(client, user)
      else {
        isWritten = await remove(client, user)
        own.splice(own.indexOf(user), 1)
      }
      if (isWritten) written[index] = (written[index] ?? 0) + 1
    }
    client.close()
  }

  const lives = Array.from({ length: clients }, (_, index) => live(index))

  return {
    answers,
    problems,
    stop: async () => {
      isStopping = true
      await Promise.all(lives)
    },
    untilEachHasWritten: async () => {
      const before = [...written]
      await until(() => written.every((count, index) => count > (before[index] ?? 0)))
    },
    compare: async servicePort => {
      const client = createKeepAliveClient(servicePort)
      const differences: string[] = []
      for (const user of all) {
        if (user.id === undefined && !(await sendCreate(client, user))) {
          differences.push(`${user.email} cannot be created`)
        }
        const answer = await client.ask({ method: 'GET', path: `/users/${user.id}` })
        const name = answer?.status === 200 ? (JSON.parse(answer.body).name as string) : undefined
        if (!user.names.includes(name)) differences.push(`${user.id} is ${name}, not ${user.names}`)
      }
      client.close()
      return differences
    },
  }
}
