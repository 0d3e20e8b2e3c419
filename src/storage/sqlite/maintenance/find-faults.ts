import { type CheckDialect, findRowFaults, WRONG_WORDS } from '../../check-rules.ts'
import { type Migration, migrationsFor } from '../../migrations.ts'
import { runAtOnce } from '../../programs.ts'
import { UNFINISHED_COPY } from '../../unusable-database.ts'
import { closing } from '../connect.ts'
import { isUnfinishedCopy, openView, readHistory, WHOLE_CACHE_KIB } from '../inspect-database.ts'
import { migrate } from '../migrator.ts'
import { Database } from '../sqlite-driver.ts'
import { createStatementRunner } from '../sqlite-statements.ts'
import { LAST_GIVEN_ID } from '../sqlite-user-import-store.ts'
import { isIndexWrong, SQLITE_WORDS } from '../sqlite-words.ts'

interface SchemaRow {
  readonly type: string
  readonly name: string
  readonly sql: string | null
}

const MAX_FAULTS = 100

const SELECT_SCHEMA = `
  SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name`

const DIALECT: CheckDialect = {
  lastGivenId: LAST_GIVEN_ID,
  lowerName: 'lower(name)',
  countLaterChanges: `
    SELECT count(*) FROM user_changes, users_summary WHERE changed_in > revision`,
}

/**
 * Reads all of a database through a read-only connection, also while others write to it. Rows of an older schema may not yet
 * be as they must be. `applied` is the number of migrations applied, 0 if the database is empty.
 * Throws if it cannot be read or does not belong to this service.
 */
export async function examine(path: string, { withWords = false } = {}) {
  const migrations = migrationsFor('sqlite')
  return closing(await openView(path), database => {
    database.pragma(`cache_size = -${WHOLE_CACHE_KIB}`)
    const applied = readHistory(database).length
    const pending = migrations.slice(applied).map(({ name }) => name)
    let faults = integrityFaults(database)
    // What follows means nothing once there are faults.
    if (faults.length === 0 && applied > 0) {
      faults = schemaFaults(database, migrations.slice(0, applied))
    }
    if (faults.length === 0 && pending.length === 0) faults = rowFaults(database, withWords)
    return { faults: faults.slice(0, MAX_FAULTS), applied, pending }
  })
}

function integrityFaults(database: Database): readonly string[] {
  const rows = database.pragma(`integrity_check(${MAX_FAULTS})`) as { integrity_check: string }[]
  return rows
    .flatMap(row => row.integrity_check.split('\n'))
    .filter(line => line !== 'ok' && line !== '' && !line.startsWith('*** '))
}

/** Differences from the schema that the migrations made. */
function schemaFaults(database: Database, migrations: readonly Migration[]): readonly string[] {
  if (isUnfinishedCopy(database)) return [UNFINISHED_COPY]
  const there = new Map(schemaOf(database).map(row => [row.name, row]))
  return schemaAfter(migrations).flatMap(({ type, name, sql }) => {
    const found = there.get(name)
    if (found === undefined) return [`the ${type} ${name} is missing`]
    return found.sql === sql
      ? []
      : [`the ${type} ${name} differs from the one that the migrations make`]
  })
}

function schemaOf(database: Database): readonly SchemaRow[] {
  return database.prepare<[], SchemaRow>(SELECT_SCHEMA).all()
}

function schemaAfter(migrations: readonly Migration[]): readonly SchemaRow[] {
  const fresh = new Database(':memory:')
  try {
    migrate(fresh, migrations, Date.now)
    return schemaOf(fresh)
  } finally {
    fresh.close()
  }
}

function rowFaults(database: Database, withWords: boolean): readonly string[] {
  const rules = findRowFaults(DIALECT, withWords ? SQLITE_WORDS : undefined)
  const faults = runAtOnce(rules, createStatementRunner(database))
  const isWrong = faults.length === 0 && withWords && isIndexWrong(database)
  return isWrong ? [WRONG_WORDS] : faults
}
