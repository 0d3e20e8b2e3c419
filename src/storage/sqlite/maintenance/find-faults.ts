import {
  describeCounts,
  FAULTS,
  feedRules,
  MAX_FAULTS,
  type Rule,
  SHARED_RULES,
  SOUND_USER,
} from '../../check-rules.ts'
import type { CheckReport } from '../../database-tasks.ts'
import { findMismatch, type Migration } from '../../migrations.ts'
import { UNFINISHED_COPY } from '../../unusable-database.ts'
import { isUnfinishedCopy, openView, readHistory, WHOLE_CACHE_KIB } from '../inspect-database.ts'
import { migrate, migrationsOfRelease } from '../migrator.ts'
import { Database } from '../sqlite-driver.ts'

export interface Examination extends CheckReport {
  /** Number of migrations applied; 0 if the database is empty. */
  readonly applied: number
}

interface SchemaRow {
  readonly type: string
  readonly name: string
  readonly sql: string | null
}

const SELECT_SCHEMA = `
  SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name`

const LATER_CHANGES = `
  SELECT count(*) FROM user_changes, users_summary WHERE user_changes.revision > users_summary.revision`

const RULES: readonly Rule[] = [
  {
    since: 1,
    sql: `SELECT count(*) FROM users WHERE NOT (${SOUND_USER})`,
    fault: FAULTS.brokenUsers,
  },
  {
    since: 1,
    sql: `SELECT max(0, coalesce((SELECT max(id) FROM users), 0)
            - coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0))`,
    fault: FAULTS.reusedIds,
  },
  {
    since: 1,
    sql: `SELECT count(*) FROM users WHERE name_lower <> lower(name) AND name NOT GLOB '*[^ -~]*'`,
    fault: FAULTS.wrongNameLower,
  },
  { since: 2, ...SHARED_RULES.userCount },
  { since: 2, ...SHARED_RULES.signingKeys },
  { since: 3, ...SHARED_RULES.storedAnswers },
  { since: 11, ...SHARED_RULES.apiKeys },
  ...feedRules(18, LATER_CHANGES),
]

/**
 * Reads all of a database through a read-only connection, also while others write to it.
 * Throws if it cannot be read or does not belong to this service.
 */
export async function examine(path: string): Promise<Examination> {
  const migrations = migrationsOfRelease()
  const database = await openView(path)
  try {
    database.pragma(`cache_size = -${WHOLE_CACHE_KIB}`)
    const applied = readHistory(database)
    const mismatch = findMismatch(applied, migrations)
    const faults = mismatch === undefined ? [] : [mismatch]
    faults.push(...integrityFaults(database))
    // Counts over damaged pages mean nothing.
    if (faults.length === 0) {
      faults.push(...schemaFaults(database, migrations.slice(0, applied.length)))
    }
    return {
      faults: faults.slice(0, MAX_FAULTS),
      applied: applied.length,
      pending: migrations.slice(applied.length).map(({ name }) => name),
    }
  } finally {
    database.close()
  }
}

function integrityFaults(database: Database): string[] {
  const rows = database.pragma(`integrity_check(${MAX_FAULTS})`) as { integrity_check: string }[]
  return rows
    .flatMap(row => row.integrity_check.split('\n'))
    .filter(line => line !== 'ok' && line !== '' && !line.startsWith('*** '))
}

/** Differences from the schema that the migrations made, then rows that break a rule. */
function schemaFaults(database: Database, migrations: readonly Migration[]): readonly string[] {
  if (isUnfinishedCopy(database)) return [UNFINISHED_COPY]
  const there = new Map(schemaOf(database).map(row => [row.name, row]))
  const changed = schemaAfter(migrations).flatMap(({ type, name, sql }) => {
    const found = there.get(name)
    if (found === undefined) return [`the ${type} ${name} is missing`]
    return found.sql === sql
      ? []
      : [`the ${type} ${name} differs from the one that the migrations make`]
  })
  if (changed.length > 0) return changed
  const rules = RULES.filter(({ since }) => since <= migrations.length)
  const count = (sql: string) => database.prepare<[], number>(sql).pluck().get() ?? 0
  return describeCounts(rules.map(({ sql, fault }) => [count(sql), fault]))
}

function schemaOf(database: Database): readonly SchemaRow[] {
  return database.prepare<[], SchemaRow>(SELECT_SCHEMA).all()
}

function schemaAfter(migrations: readonly Migration[]): readonly SchemaRow[] {
  if (migrations.length === 0) return []
  const fresh = new Database(':memory:')
  try {
    migrate(fresh, migrations, Date.now)
    return schemaOf(fresh)
  } finally {
    fresh.close()
  }
}
