import { expect, test } from 'vitest'
import { createClosing } from '../../../src/storage/postgres/batches.ts'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import type { Connections, Session } from '../../../src/storage/postgres/postgres-connections.ts'
import {
  migratePostgres,
  postgresMigrations,
} from '../../../src/storage/postgres/postgres-migrator.ts'
import { createPostgresUserRepository } from '../../../src/storage/postgres/postgres-user-repository.ts'
import type { UserRepository } from '../../../src/users/user-repository.ts'
import {
  describeUserRepository,
  type RepositoryHarness,
} from '../../contracts/user-repository-contract.ts'
import { describeWordSearch } from '../../contracts/word-search-contract.ts'
import { connectToPostgres, queryPostgres } from '../../support/postgres-client.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate, newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { untilPasses } from '../../support/until.ts'

const HARNESS: RepositoryHarness = {
  name: 'PostgreSQL',
  open: async now => {
    const location = locationOf(await newPostgresDatabase())
    const connections = openConnections({ location })
    await migratePostgres({ connections, migrations: postgresMigrations(), now })
    const closing = createClosing()
    const repository = createRepository(connections, { closing, now })
    const close = async () => {
      await closing.close()
      await connections.close()
    }
    return { repository, close }
  },
}

describeUserRepository(HARNESS)

describeWordSearch(HARNESS)

test('update takes back an e-mail that another transaction changes meanwhile', async () => {
  const url = await copyPostgresTemplate()
  const repository = createRepository(connectTo(url))
  const { id } = await repository.create(ANN)
  const other = await connectToPostgres(url)
  await other.query(`BEGIN; UPDATE users SET email = 'other@example.com'`)
  const updated = expect(
    repository.update(id, { name: 'Bea', email: ANN.email }),
  ).resolves.toMatchObject({ json: expect.stringContaining(`"email":"${ANN.email}"`) })
  await untilPasses(async () => {
    expect(await queryPostgres(url, WAITING)).not.toEqual([])
  })
  await other.query('COMMIT')
  await other.end()
  await updated
})

/** Sessions of the database that wait for a lock. */
const WAITING = `
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

test('create tells of a new user even if used keys cannot be looked up for another', async () => {
  const connections = connectTo(await copyPostgresTemplate())
  await createRepository(connections).create(ANN)
  const repository = createRepository(withoutUsedKeys(connections))
  const claim = (digit: string) => ({ keyHash: Buffer.alloc(32, digit), fingerprint: 'body' })
  const [bea, ann] = await Promise.allSettled([
    repository.create({ ...ANN, email: 'bea@example.com' }, claim('1')),
    repository.create(ANN, claim('2')),
  ])
  expect([bea.status, ann.status]).toEqual(['fulfilled', 'rejected'])
})

/** Fails statements that look for keys. */
function withoutUsedKeys(connections: Connections): Connections {
  const failing =
    <T>(work: (session: Session) => Promise<T>) =>
    (session: Session) =>
      work({
        query: (statement, values) =>
          statement.text.includes('key_hash = ANY')
            ? session.query({ text: 'SELECT 1 / 0' })
            : session.query(statement, values),
      })
  return {
    ...connections,
    read: (work, options) => connections.read(failing(work), options),
    write: (work, options) => connections.write(failing(work), options),
  }
}

const ANN = { name: 'Ann', email: 'ann@example.com', passwordDigest: null }

function createRepository(
  connections: Connections,
  { closing = createClosing(), now = Date.now } = {},
): UserRepository {
  return createPostgresUserRepository({
    connections,
    catchUp: async () => false,
    closing,
    now,
    steadyNow: now,
    maxWaiting: 1000,
  })
}
