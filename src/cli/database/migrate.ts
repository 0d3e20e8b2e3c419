import type { Environment } from '../../config.ts'
import { createDatabaseTasks } from '../../wiring/create-database-tasks.ts'
import { EXIT, type JsonFlags } from '../terminal/command-context.ts'
import { print, printJson } from '../terminal/print.ts'
import { readConfig } from '../terminal/read-config.ts'

export interface MigrateFlags extends JsonFlags {
  /** Changes nothing. */
  readonly status?: boolean
}

/** Brings the database to the schema of this release, or only prints which migrations were applied. */
export async function migrate(environment: Environment, flags: MigrateFlags): Promise<number> {
  const tasks = createDatabaseTasks(readConfig(environment))
  if (!flags.status) await tasks.migrate()
  const migrations = await tasks.migrationStatus()
  if (flags.json) {
    await printJson(
      migrations.map(({ name, appliedAt }) => ({ name, applied_at: appliedAt ?? null })),
    )
  } else {
    const lines = migrations.map(({ name, appliedAt }) => {
      return `${name}  ${appliedAt === undefined ? 'pending' : `applied ${appliedAt}`}`
    })
    await print(lines.join('\n'))
  }
  return EXIT.done
}
