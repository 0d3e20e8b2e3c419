import { ServiceError } from '../../errors.ts'
import {
  createIdCounter,
  createImportDecisions,
  emailKey,
} from '../../users/transfer/import-decisions.ts'
import type {
  ImportBatch,
  ImportOutcome,
  UserImportStore,
} from '../../users/transfer/user-import-store.ts'
import type { UserRow } from '../../users/user-repository.ts'
import {
  checkpointValues,
  createCheckpointFinder,
  UPSERT_CHECKPOINT,
} from '../import-checkpoints.ts'
import { insertUsers, readUsersOf, takeIds, updateUsers } from './import-statements.ts'
import {
  type Connections,
  createPostgresSharedStatements,
  type Session,
} from './postgres-connections.ts'
import { isCausedBy } from './postgres-errors.ts'

/** What a batch does, in the order of its rows up to the conflict that ends it. */
interface Plan {
  readonly outcomes: readonly ImportOutcome[]
  /** As they are after all rows, by the place of the row that creates them. */
  readonly created: ReadonlyMap<number, UserRow>
  /** Existing users as they are after all rows. */
  readonly changed: readonly UserRow[]
}

/** Attempts to write a batch while other writers change its users. */
const MAX_ATTEMPTS = 5

/** SQLSTATEs of a batch that met another writer: a taken e-mail or id, a deadlock, a conflict of transactions. */
const RACES: readonly string[] = ['23505', '40P01', '40001']

/** The highest id that was given out. A role that only serves may not read the sequence itself. */
const SELECT_LAST_ID = `SELECT coalesce(pg_sequence_last_value('users_id_seq'::regclass), 0)`

/** Another writer was between the reads of a batch and its writes. */
class Race extends Error {}

/**
 * Imports in the tables `users` and `imports` of PostgreSQL. A batch is decided row by row in memory and written with a few
 * statements. If another writer gets in between, the whole batch is repeated. `now` is in milliseconds since the epoch.
 */
export function createPostgresUserImportStore(
  connections: Connections,
  now: () => number,
): UserImportStore {
  /**
   * The ids of the users that the batch will create, by the place of their row. They are taken before the transaction, in
   * the order of the rows. Only what other writers do meanwhile can make another plan of the same batch.
   */
  async function takeIdsFor(batch: ImportBatch): Promise<ReadonlyMap<number, number>> {
    const { users } = batch
    const known = await connections.read(async session => {
      return { users: await readUsersOf(session, users), lastId: await readLastId(session) }
    }, 'long')
    const idFor = createIdCounter(known.lastId)
    const { created } = plan(batch, known.users, place => idFor(users[place]?.id))
    const places = [...created.keys()]
    if (places.length === 0) return new Map()
    const wanted = places.map(place => users[place]?.id)
    const ids = await takeIds(connections, wanted)
    return new Map(places.map((place, index) => [place, ids[index] as number]))
  }

  function plan(
    { users, onConflict }: ImportBatch,
    existing: readonly UserRow[],
    idFor: (place: number) => number,
  ): Plan {
    const decide = createImportDecisions({ existing, onConflict, now })
    const outcomes: ImportOutcome[] = []
    const places = new Map<number, number>()
    const created = new Map<number, UserRow>()
    const changed = new Map<number, UserRow>()
    for (const [place, row] of users.entries()) {
      const { outcome, after } = decide(row, () => idFor(place))
      outcomes.push(outcome)
      if (outcome === 'created' && after !== undefined) places.set(after.id, place)
      if (after !== undefined) {
        const createdBy = places.get(after.id)
        if (createdBy === undefined) changed.set(after.id, after)
        else created.set(createdBy, after)
      }
      if (onConflict === 'fail' && outcome !== 'created') break
    }
    return { outcomes, created, changed: [...changed.values()] }
  }

  async function write(
    session: Session,
    batch: ImportBatch,
    ids: ReadonlyMap<number, number>,
  ): Promise<readonly ImportOutcome[]> {
    const { users, onConflict, checkpointAfter } = batch
    // Only an update changes the users that it finds.
    const isLocked = onConflict === 'update'
    const existing = users.length === 0 ? [] : await readUsersOf(session, users, { isLocked })
    const { outcomes, created, changed } = plan(batch, existing, place => {
      const id = ids.get(place)
      if (id === undefined) throw new Race()
      return id
    })
    if (changed.length > 0) await updateUsers(session, changed, idsToPark(existing, changed))
    const inserted = created.size === 0 ? 0 : await insertUsers(session, [...created.values()])
    if (inserted < created.size) throw new Race()
    const checkpoint = checkpointValues(checkpointAfter(outcomes), now())
    await session.query(UPSERT_CHECKPOINT, checkpoint)
    return outcomes
  }

  return {
    findCheckpoint: createCheckpointFinder(createPostgresSharedStatements(connections)),

    findUsers: rows => connections.read(session => readUsersOf(session, rows), 'long'),

    lastId: () => readLastId(connections),

    write: async batch => {
      for (let attempt = 1; ; attempt++) {
        try {
          const ids = batch.users.length === 0 ? new Map() : await takeIdsFor(batch)
          return await connections.transaction(session => write(session, batch, ids), {
            lane: 'long',
            countWrites: () => 1,
          })
        } catch (error) {
          if (!isRace(error)) throw error
          if (attempt === MAX_ATTEMPTS) {
            throw new ServiceError('storage_unavailable', { cause: error })
          }
        }
      }
    },
  }
}

async function readLastId(session: Session): Promise<number> {
  const [[lastId] = [0]] = await session.query<[number]>(SELECT_LAST_ID)
  return lastId
}

/** The changed users whose present e-mail becomes that of another changed user. */
function idsToPark(existing: readonly UserRow[], changed: readonly UserRow[]): number[] {
  const owners = new Map(existing.map(({ id, email }) => [emailKey(email), id]))
  const ids = new Set(changed.map(({ id }) => id))
  return changed.flatMap(({ id, email }) => {
    const owner = owners.get(emailKey(email))
    return owner === undefined || owner === id || !ids.has(owner) ? [] : [owner]
  })
}

function isRace(error: unknown): boolean {
  return error instanceof Race || isCausedBy(error, RACES)
}
