// The databases of the comparison: for each engine one for the service and one for the peers, with the same users.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { CREATE_POSTGRES_TABLE, CREATE_TABLE } from './peers/users-table.mjs'
import { migrate } from './servers.mjs'

const FILL_SQLITE = names => `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @users)
  INSERT INTO users (name, email, created_at, updated_at${names && ', name_lower'})
  SELECT 'User ' || i, printf('%08x.%d@example.com', i * 2654435761 & 0xffffffff, i), time, time${names}
  FROM (SELECT i, strftime('%Y-%m-%dT%H:%M:%fZ', 1600000000 + i * 10, 'unixepoch') AS time FROM serial)`

const FILL_POSTGRES = (names, time) => `
  INSERT INTO users (name, email, created_at, updated_at${names && ', name_lower'})
  SELECT 'User ' || i, lpad(to_hex(i * 2654435761 & 4294967295), 8, '0') || '.' || i || '@example.com', time, time${names}
  FROM (SELECT i, ${time} AS time FROM (
    SELECT i, to_timestamp(1600000000 + i * 10) AS moment FROM generate_series(1, $1::bigint) AS i) AS moments) AS serial`

/** A time as the service stores it. */
export const TIME_AS_TEXT = `to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const NAMES = `, 'user ' || i`

/**
 * Both of SQLite. `copy(isOurs, home)` makes the database of one start of a server: the `url` by which it opens the database,
 * and `drop()`.
 */
export async function makeSqliteDatabases(folder, users) {
  const ours = join(folder, 'service.db')
  const theirs = join(folder, 'peers.db')
  await migrate(ours)
  for (const [file, schema, names] of [
    [ours, '', NAMES],
    [theirs, CREATE_TABLE, ''],
  ]) {
    const database = new Database(file)
    database.exec(schema)
    database.prepare(FILL_SQLITE(names)).run({ users })
    database.close()
    if (file === ours) await migrate(ours, '--reindex')
    leaveWal(file)
  }
  return {
    copy: async (isOurs, home) => {
      const url = join(home, 'users.db')
      copyFileSync(isOurs ? ours : theirs, url)
      return { url, drop: async () => {} }
    },
  }
}

function leaveWal(file) {
  const database = new Database(file)
  database.pragma('journal_mode = DELETE')
  database.close()
}

/** Both of PostgreSQL. A copy also has `cpu`, of `cpuOf` in postgres.mjs. */
export async function makePostgresDatabases(postgres, users) {
  const ours = await postgres.createDatabase()
  const theirs = await postgres.createDatabase()
  await migrate(ours)
  await postgres.query(theirs, CREATE_POSTGRES_TABLE)
  for (const [url, fill] of [
    [ours, FILL_POSTGRES(NAMES, TIME_AS_TEXT)],
    [theirs, FILL_POSTGRES('', 'moment')],
  ]) {
    await postgres.query(url, fill, [users])
    await postgres.query(url, 'VACUUM ANALYZE')
  }
  return {
    copy: async isOurs => {
      const url = await postgres.createDatabase(isOurs ? ours : theirs)
      return { url, drop: () => postgres.drop(url), cpu: postgres.cpuOf(url) }
    },
  }
}
