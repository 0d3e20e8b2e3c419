import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { checkHistory } from '../../migrations.ts'
import { OLDER_SCHEMA, UnusableDatabase } from '../../unusable-database.ts'
import { readHistory, requireUsable } from '../inspect-schema.ts'
import { openConnections } from '../open-connections.ts'
import type { Session } from '../postgres-connections.ts'
import { asUnusable } from '../postgres-errors.ts'
import { migratePostgres, postgresMigrations } from '../postgres-migrator.ts'

/** Whether a database has no schema yet. Throws `UnusableDatabase` for a schema other than that of this release. */
export async function lacksSchema(session: Session): Promise<boolean> {
  const migrations = postgresMigrations()
  await requireUsable(session)
  const applied = await readHistory(session)
  checkHistory(applied, migrations)
  if (applied.length > 0 && applied.length < migrations.length) {
    throw new UnusableDatabase(OLDER_SCHEMA)
  }
  return applied.length === 0
}

/** Creates the schema in an empty database. */
export async function createSchema(location: PostgresLocation): Promise<void> {
  const connections = openConnections({ location })
  try {
    await migratePostgres({ connections, migrations: postgresMigrations(), now: Date.now })
  } catch (error) {
    throw asUnusable(error)
  } finally {
    await connections.close()
  }
}
