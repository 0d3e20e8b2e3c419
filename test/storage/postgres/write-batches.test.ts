import pg from 'pg'
import { expect, test } from 'vitest'
import { createClosing } from '../../../src/storage/postgres/batches.ts'
import type { Connections } from '../../../src/storage/postgres/postgres-connections.ts'
import { createWriteBatches } from '../../../src/storage/postgres/write-batches.ts'

/** Connections on which a lock is never free for work that several writes share. */
function createLockedConnections() {
  const begun: string[] = []
  let release = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const connections = {
    write: async () => {
      begun.push('together')
      throw Object.assign(new pg.DatabaseError('lock', 4, 'error'), { code: '55P03' })
    },
    transaction: async (work, options) => {
      begun.push(`alone ${options?.deadline !== undefined}`)
      await released
      return work({
        query: async ({ text }) => {
          begun.push(text.includes('statement_timeout') ? 'timeouts' : text)
          return []
        },
      })
    },
  } satisfies Partial<Connections>
  return { connections: connections as unknown as Connections, begun, release }
}

test('each statement of a write on its own ends at its deadline, and others of its key wait behind it', async () => {
  const { connections, begun, release } = createLockedConnections()
  const closing = createClosing()
  let begins = 0
  // The batch, and each of the two that waits on its own.
  const begin = () => {
    closing.begin()
    if (++begins === 3) release()
  }
  const { add } = createWriteBatches<string, string>({
    connections,
    closing: { ...closing, begin },
    keysOf: () => ['same'],
    maxWaiting: 10,
    write: async (session, [item = '']) => {
      await session.query({ text: `${item} 1` })
      await session.query({ text: `${item} 2` })
      return [{ value: item }]
    },
  })
  expect(await Promise.all([add('a'), add('b')])).toEqual(['a', 'b'])
  const statementsOf = (item: string) => ['timeouts', `${item} 1`, 'timeouts', `${item} 2`]
  expect(begun).toEqual([
    'together',
    'alone true',
    ...statementsOf('a'),
    'alone true',
    ...statementsOf('b'),
  ])
})
