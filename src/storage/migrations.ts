import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { PACKAGE_ROOT } from '../platform/package.ts'
import type { MigrationStatus } from './database-tasks.ts'
import { NOTE_RULES } from './fold-words.ts'
import { UNRELEASED, UnusableDatabase } from './unusable-database.ts'

/** One numbered SQL file, such as `0001_schema.sql`. */
export interface Migration {
  readonly version: number
  /** The file name without its extension. */
  readonly name: string
  readonly sql: string
  /** SHA-256 of the file, in hexadecimal. */
  readonly hash: string
}

/** One migration in the history that a database stores. */
export interface AppliedMigration extends Omit<Migration, 'sql'> {
  /** ISO 8601 in UTC. */
  readonly applied_at: string
}

/** The migrations of this release for an engine: those of the folder of its name. */
export function migrationsFor(engine: string): readonly Migration[] {
  const migrations = readMigrations(new URL(`migrations/${engine}/`, PACKAGE_ROOT))
  // A new database has no users whose words a first start would have to make again.
  return migrations.map(one => (one.version === 1 ? { ...one, sql: one.sql + NOTE_RULES } : one))
}

/** The migrations of a folder. Its SQL files are numbered 0001, 0002, … without a gap. */
export function readMigrations(folder: URL): readonly Migration[] {
  const files = readdirSync(folder).filter(file => file.endsWith('.sql'))
  return files.sort().map((file, index) => {
    const sql = readFileSync(new URL(file, folder), 'utf8')
    return {
      version: index + 1,
      name: file.slice(0, -'.sql'.length),
      sql,
      hash: hash('sha256', sql),
    }
  })
}

/** Throws `UnusableDatabase` for a history from an unreleased version or a newer release, and for a file that was edited after it was applied. */
export function checkHistory(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): void {
  const refusal = (why: string) => new UnusableDatabase(why, { isFault: true })
  const [first] = applied
  if (first !== undefined && first.hash !== migrations[0]?.hash) throw refusal(UNRELEASED)
  const newest = applied.at(-1)?.version ?? 0
  if (newest > migrations.length) {
    throw refusal(
      `its schema version ${newest} is from a newer release: this release knows only ${migrations.length}`,
    )
  }
  const edited = applied.find((row, index) => {
    const file = migrations[index]
    return file?.version !== row.version || file.hash !== row.hash
  })
  if (edited !== undefined)
    throw refusal(`its migration ${edited.name} differs from the one in this release`)
}

/** The migrations of a release, each with the time at which it was applied to a database. */
export function statusOf(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): readonly MigrationStatus[] {
  return migrations.map(({ name }, index) => ({ name, appliedAt: applied[index]?.applied_at }))
}
