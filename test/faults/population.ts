import type { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { createRandom } from '../support/faults.ts'
import { representationOf } from './user-rows.ts'
import { claimId, createWriter, type Writer } from './write-load.ts'
import { findUsers, type WrittenUser } from './written-users.ts'

/** All clients of a service that is killed again and again, and what they know about their users. */
export interface Population {
  readonly users: readonly WrittenUser[]
  readonly acknowledged: number
  /**
   * One client writes alone for a while. Only the id of the last user can be used twice by mistake, and among many
   * clients this user is rarely deleted.
   */
  writeAlone(port: number): Promise<void>
  /** All clients write at once until the service is gone. */
  write(port: number): Promise<void>
  /** The differences between a database and what it must contain. A write in flight may be found done or not done. */
  takeStock(database: Database): string[]
  /** Repeats each create with a key that was in flight, and some of the acknowledged ones. */
  retry(port: number): Promise<void>
}

export interface PopulationOptions {
  readonly clients: number
  /** Number of users in the database from the start. */
  readonly users?: readonly WrittenUser[]
  /** Users up to this id are not compared one by one. */
  readonly afterId?: number
}

const SELECT_LAST_ID = `SELECT seq FROM sqlite_sequence WHERE name = 'users'`

/** Number of acknowledged creates that are repeated after each kill. */
const RETRIES = 10

const WRITES_ALONE = 30

export function createPopulation(options: PopulationOptions): Population {
  const { clients, users: earlier = [], afterId = 0 } = options
  const random = createRandom()
  const owners = new Map<number, WrittenUser>()
  for (const user of earlier) claimId(owners, user)
  const writers = Array.from({ length: clients }, (_, client) =>
    createWriter({ label: `client${client}`, random, owners }),
  )
  const toRetry: { writer: Writer; user: WrittenUser }[] = []
  const all = () => [...earlier, ...writers.flatMap(({ users }) => users)]

  function takeStock(database: Database): string[] {
    const { problems, versions } = findUsers(database, all(), { afterId })
    const lastId = database.prepare(SELECT_LAST_ID).pluck().get() as number | undefined
    const isGivenAgain = [...owners.keys()].some(id => id > (lastId ?? 0))
    if (isGivenAgain) problems.push(`ids after ${lastId} would be used again`)
    if (problems.length > 0) return problems
    for (const writer of writers) {
      for (const user of writer.users.filter(isInFlight)) {
        const { index = 0, row } = versions.get(user) ?? {}
        settle({ writer, user, index, body: row && representationOf(row) })
      }
    }
    return []
  }

  /** The result of a write in flight is known from now on, and must stay. */
  function settle({ writer, user, index, body }: Settlement): void {
    const isCreate = user.versions.length === 2
    if (isCreate && user.idempotencyKey !== undefined) toRetry.push({ writer, user })
    else if (index === 0) writer.users.splice(writer.users.indexOf(user), 1)
    else user.versions.length = index + 1
    const version = user.versions[index]
    if (index === 0 || version === undefined) return
    version.acknowledgedAt ??= process.hrtime.bigint()
    if (body !== undefined) version.body = body
    if (!isCreate || body === undefined) return
    user.firstAnswer = body
    user.id = JSON.parse(body).id as number
    claimId(owners, user)
  }

  async function retry(port: number): Promise<void> {
    for (const { writer, user } of toRetry.splice(0)) await writer.retry(port, user)
    for (let count = 0; count < RETRIES; count++) {
      const writer = writers[Math.floor(random() * clients)]
      const user = writer?.users[Math.floor(random() * writer.users.length)]
      if (user?.idempotencyKey !== undefined) await writer?.retry(port, user)
    }
  }

  return {
    get users() {
      return all()
    },
    get acknowledged() {
      return writers.reduce((sum, { acknowledged }) => sum + acknowledged, 0)
    },
    writeAlone: async port => writers[0]?.write(port, WRITES_ALONE),
    write: async port => {
      await Promise.all(writers.map(writer => writer.write(port)))
    },
    takeStock,
    retry,
  }
}

interface Settlement {
  readonly writer: Writer
  readonly user: WrittenUser
  readonly index: number
  readonly body: string | undefined
}

function isInFlight({ versions }: WrittenUser): boolean {
  return versions.at(-1)?.acknowledgedAt === undefined
}
