import type { ImportOutcome, UserImportStore } from '../../users/transfer/user-import-store.ts'
import { createIdCounter, createImportDecisions } from './import-decisions.ts'
import { readLastId, readUsersOf } from './import-statements.ts'
import type { PostgresUserImportStoreOptions } from './postgres-user-import-store.ts'

const LONG = { lane: 'long' } as const

/**
 * Tries an import: decides as the real store does, and keeps what it decided in memory, some 400 bytes for each user of
 * the file. The database is only read.
 */
export async function openPostgresTrialImportStore(
  options: PostgresUserImportStoreOptions,
): Promise<UserImportStore> {
  const { connections, now } = options
  const decisions = createImportDecisions(now)
  const idFor = createIdCounter(await connections.read(readLastId))

  async function addUsersOf(rows: Parameters<typeof readUsersOf>[1]): Promise<void> {
    if (rows.length === 0) return
    decisions.add(await connections.read(session => readUsersOf(session, rows), LONG))
  }

  return {
    findCheckpoint: async () => undefined,

    findDigestsByEmail: async emails => {
      await addUsersOf(emails.map(email => ({ email })))
      return new Map(
        emails.flatMap(email => {
          const user = decisions.findByEmail(email)
          return user === undefined ? [] : [[email, user.passwordDigest]]
        }),
      )
    },

    write: async ({ users, onConflict, checkpointAfter }) => {
      await addUsersOf(users)
      const outcomes = users.map((row): ImportOutcome => {
        return decisions.decide(row, onConflict, () => idFor(row.id)).outcome
      })
      checkpointAfter(outcomes)
      return outcomes
    },
  }
}
