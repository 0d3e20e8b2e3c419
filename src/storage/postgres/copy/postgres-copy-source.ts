import type { PostgresLocation } from '../../../config/postgres-url.ts'
import type { CopySource } from '../../copy/database-copy.ts'
import { UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { isUnfinishedCopy } from '../postgres-copy-mark.ts'
import { lockForCopy } from './copy-lock.ts'
import { lacksSchema } from './copy-schema.ts'
import { openCopySession } from './copy-session.ts'
import { createPostgresCopyReader, readInOrder } from './postgres-copy-reader.ts'

const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`

const COUNT_USERS = `SELECT coalesce(sum(user_count), 0)::bigint FROM users_summary`

/** Opens one state of a database, which may be in use. Throws `UnusableDatabase`. */
export async function openPostgresCopySource(
  location: PostgresLocation,
  answerTimeoutMs?: number,
): Promise<CopySource> {
  const session = await openCopySession(location, { isWritten: false, answerTimeoutMs })
  try {
    await session.query({ text: BEGIN })
    await readInOrder(session)
    if (await lacksSchema(session)) throw new UnusableDatabase('it has no tables of this service')
    await lockForCopy(session, 'source')
    if (await isUnfinishedCopy(session)) throw new UnusableDatabase(UNFINISHED_COPY)
  } catch (error) {
    session.close()
    throw error
  }
  return {
    ...createPostgresCopyReader(session),
    countUsers: async () => {
      const [row] = await session.query<[number]>({ text: COUNT_USERS })
      return row?.[0] ?? 0
    },
    close: async () => session.close(),
  }
}
