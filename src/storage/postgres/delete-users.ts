import { ServiceError } from '../../errors.ts'
import type { ExpectedVersions } from '../../users/user-repository.ts'
import type { Closing, Outcome } from './batches.ts'
import { joinVersions } from './change-users.ts'
import type { Connections, Session, Statement } from './postgres-connections.ts'
import { APART, createWriteBatches } from './write-batches.ts'

interface Delete {
  readonly id: number
  readonly expected: ExpectedVersions
}

type ResultRow = readonly [
  id: number,
  verdict: 'absent' | 'locked' | 'version_mismatch' | 'deleted',
]

/**
 * Locks the users in the order of their ids, then decides and deletes. A user that is there but was not locked is locked by
 * another transaction.
 */
function deleteSql({ skipsLocked }: { readonly skipsLocked: boolean }): string {
  const others = skipsLocked ? 'SKIP LOCKED' : ''
  const notFound = skipsLocked
    ? `CASE WHEN EXISTS (SELECT FROM users WHERE users.id = wanted.id) THEN 'locked' ELSE 'absent' END`
    : `'absent'`
  return `
    WITH wanted AS (
      SELECT * FROM unnest($1::bigint[], $2::text[]) AS wanted (id, versions)
    ), found AS (
      SELECT id, updated_at FROM users WHERE id = ANY ($1::bigint[])
      ORDER BY id FOR UPDATE ${others}
    ), decided AS (
      SELECT id, CASE WHEN updated_at <> ALL (string_to_array(versions, ' ')) THEN 'version_mismatch'
        ELSE 'deleted' END AS verdict
      FROM found JOIN wanted USING (id)
    ), deleted AS (
      DELETE FROM users USING decided WHERE users.id = decided.id AND verdict = 'deleted'
    )
    SELECT wanted.id,
      coalesce(verdict, ${notFound})
    FROM wanted LEFT JOIN decided USING (id)`
}

const DELETE: Statement = { name: 'delete_users', text: deleteSql({ skipsLocked: true }) }

const DELETE_PATIENTLY: Statement = {
  name: 'delete_users_patiently',
  text: deleteSql({ skipsLocked: false }),
}

export interface DeleteUsersOptions {
  readonly connections: Connections
  readonly closing: Closing
  readonly maxWaiting: number
}

/** `UserRepository.delete`, with one statement for the calls of one turn of the event loop. */
export function createUserDeleter(
  options: DeleteUsersOptions,
): (id: number, expected?: ExpectedVersions) => Promise<boolean> {
  const batches = createWriteBatches<Delete, boolean>({
    ...options,
    keysOf: ({ id }) => [String(id)],
    write: async (session: Session, deletes, isAlone) => {
      const statement = isAlone ? DELETE_PATIENTLY : DELETE
      const rows = await session.query<ResultRow>(statement, [
        deletes.map(({ id }) => id),
        deletes.map(({ expected }) => expected && joinVersions(expected)),
      ])
      const verdicts = new Map(rows)
      return deletes.map(({ id }) => outcomeOf(verdicts.get(id)))
    },
  })
  return (id, expected) => batches.add({ id, expected })
}

function outcomeOf(verdict: ResultRow[1] | undefined): Outcome<boolean> | typeof APART {
  if (verdict === 'locked') return APART
  if (verdict === 'version_mismatch') return { error: new ServiceError(verdict) }
  return { value: verdict === 'deleted' }
}
