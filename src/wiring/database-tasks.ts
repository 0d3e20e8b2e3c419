import { resolve } from 'node:path'
import type { Config } from '../config.ts'
import { type Backup, backupDatabase } from '../storage/backup-database.ts'
import { checkDatabase, type WorkOptions } from '../storage/check-database.ts'
import { DatabaseRefused } from '../storage/database-refused.ts'
import type { Examination } from '../storage/find-faults.ts'
import { type Restored, restoreDatabase } from '../storage/restore-database.ts'
import { type MigrationStatus, migrationStatus } from '../storage/sqlite.ts'
import { namingTheFile, namingTheSetting } from './database-refusals.ts'
import { openDatabase } from './open-stores.ts'

export type { WorkOptions }

/** Throws `OperatorError` when the database cannot be migrated. */
export async function migrateDatabase(config: Config): Promise<void> {
  const database = await openDatabase(config, Date.now)
  database.close()
}

/** Throws `OperatorError` when there is a database and it cannot be read. */
export function readMigrationStatus({ database }: Config): Promise<readonly MigrationStatus[]> {
  return namingTheSetting(database, () => migrationStatus(database.path))
}

interface FileWork extends WorkOptions {
  readonly file: string
}

/** Throws `OperatorError` when there is no backup then but what was in `file` before. */
export function backUp({ database }: Config, { file, ...options }: FileWork): Promise<Backup> {
  return namingTheFile(database, () =>
    backupDatabase({ ...options, path: database.path, target: resolve(file) }),
  )
}

/** Throws `OperatorError` when the database is as it was. */
export function restoreFrom(
  { database }: Config,
  { file, ...options }: FileWork,
): Promise<Restored> {
  return namingTheFile(database, () =>
    restoreDatabase({ ...options, path: database.path, backup: resolve(file), now: Date.now }),
  )
}

/** What is wrong with the database. Throws `OperatorError` when it cannot be looked at. */
export function checkStorage({ database }: Config, options: WorkOptions): Promise<Examination> {
  return namingTheFile(database, async () => {
    try {
      return await checkDatabase(database.path, options)
    } catch (error) {
      if (!(error instanceof DatabaseRefused && error.isFault)) throw error
      return { faults: [error.message], applied: 0, pending: [] }
    }
  })
}
