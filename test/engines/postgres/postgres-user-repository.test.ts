import { expect, test } from 'vitest'
import { createClosing } from '../../../src/storage/postgres/batches.ts'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import type { Connections, Session } from '../../../src/storage/postgres/postgres-connections.ts'
import { createPostgresUserRepository } from '../../../src/storage/postgres/postgres-user-repository.ts'
import { describeUserRepository } from '../../contracts/user-repository-contract.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import {
  connectTo,
  holdOpen,
  openStorage,
  untilWaiting,
} from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'

/** What the first migration does, and what differs between databases that are no copies. */
const MARK_AGAIN = 'UPDATE users_summary SET mark = floor(random() * 281474976710656)'

describeUserRepository({
  name: 'PostgreSQL',
  open: async now => {
    const url = await copyPostgresTemplate()
    await queryPostgres(url, MARK_AGAIN)
    const connections = openConnections({ location: locationOf(url) })
    const closing = createClosing()
    const repository = createRepository(connections, { closing, now })
    const close = async () => {
      await closing.close()
      await connections.close()
    }
    return { repository, close }
  },
})

const ANN = { name: 'Ann', email: 'ann@example.com', passwordDigest: null }

test('update takes back an e-mail that another transaction changes meanwhile', async () => {
  const url = await copyPostgresTemplate()
  const { users } = await openStorage(url)
  const { id } = await users.create(ANN)
  const other = await holdOpen(url, `UPDATE users SET email = 'other@example.com'`)
  const updated = users.update(id, { name: 'Bea', email: ANN.email })
  await untilWaiting(url)
  await other.query('COMMIT')
  expect(await updated).toMatchObject({
    json: expect.stringContaining(`"email":"${ANN.email}"`),
  })
})

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

function createRepository(
  connections: Connections,
  { closing = createClosing(), now = Date.now } = {},
) {
  return createPostgresUserRepository({
    ...{ connections, closing, now },
    catchUp: async () => false,
    steadyNow: now,
    maxWaiting: 1000,
  })
}
