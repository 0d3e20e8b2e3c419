import type { Session } from './postgres-connections.ts'

const SELECT_IS_UNFINISHED = `SELECT EXISTS (SELECT FROM unfinished_copies)`

/** Whether a copy began in a database and is not complete. The schema must be that of this release. */
export async function isUnfinishedCopy(session: Session): Promise<boolean> {
  const [row] = await session.query<[boolean]>({ text: SELECT_IS_UNFINISHED })
  return row?.[0] === true
}
