import { type Environment, loadConfig } from '../config.ts'
import { migrateDatabase, readMigrationStatus } from '../wiring/database-tasks.ts'

/** Brings the database to the schema of this release, or only tells how far it is. */
export async function migrate(
  environment: Environment,
  { statusOnly }: { statusOnly: boolean },
): Promise<number> {
  const config = loadConfig(environment)
  if (!statusOnly) await migrateDatabase(config)
  for (const { name, appliedAt } of await readMigrationStatus(config)) {
    console.log(`${name}  ${appliedAt === undefined ? 'pending' : `applied ${appliedAt}`}`)
  }
  return 0
}
