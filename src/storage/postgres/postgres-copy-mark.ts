import type { Session } from './postgres-connections.ts'

const SELECT_SOURCE = `SELECT source_hash FROM unfinished_copies`

/** The source of the copy that began in a database and is not complete. The schema must be that of this release. */
export async function readCopyMark(session: Session): Promise<string | undefined> {
  const [row] = await session.query<[string]>({ text: SELECT_SOURCE })
  return row?.[0]
}
