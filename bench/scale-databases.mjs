// The databases of `npm run bench:scale`, filled quickly.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { TIME_AS_TEXT } from './databases.mjs'
import { migrate } from './servers.mjs'

const CHUNK = 50_000

// Of ten million users a hundred share each name. Addresses are in random order. One user was created every ten seconds.
const FILL_SQLITE = `
  WITH RECURSIVE serial (i) AS (SELECT @from UNION ALL SELECT i + 1 FROM serial WHERE i < @to)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT 'Name ' || (i * 7919 % 100000), 'name ' || (i * 7919 % 100000),
    printf('%08x.%d@example.com', i * 2654435761 & 0xffffffff, i), time, time
  FROM (SELECT i, strftime('%Y-%m-%dT%H:%M:%fZ', 1600000000 + i * 10, 'unixepoch') AS time FROM serial)`

const FILL_POSTGRES = `
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT 'Name ' || (i * 7919 % 100000), 'name ' || (i * 7919 % 100000),
    lpad(to_hex(i * 2654435761 & 4294967295), 8, '0') || '.' || i || '@example.com', time, time
  FROM (SELECT i, ${TIME_AS_TEXT} AS time FROM (
    SELECT i, to_timestamp(1600000000 + i * 10) AS moment
    FROM generate_series($1::bigint, $2::bigint) AS i) AS moments) AS serial`

/** The indexes that can be dropped and created again. */
export const SELECT_INDEXES = `
  SELECT indexname AS name, indexdef AS sql FROM pg_indexes
  WHERE tablename = 'users' AND indexname NOT IN (SELECT conname FROM pg_constraint)`

/**
 * Makes a database of SQLite with users: its `url`, how long that took as `filledMs`, its size in `bytes`, and `drop()`.
 * Indexes and triggers are created after the rows, which is faster.
 */
export async function makeSqliteDatabase(home, size) {
  const url = join(home, 'users.db')
  await migrate(url)
  const startedAt = performance.now()
  const database = new Database(url)
  database.pragma('journal_mode = OFF')
  database.pragma('synchronous = OFF')
  database.pragma('cache_size = -1000000')
  const dropped = database
    .prepare(`
      SELECT type, name, sql FROM sqlite_schema
      WHERE tbl_name = 'users' AND type IN ('index', 'trigger') AND sql IS NOT NULL`)
    .all()
  for (const { type, name } of dropped) database.exec(`DROP ${type} ${name}`)
  const insert = database.prepare(FILL_SQLITE)
  for (const [from, to] of chunksOf(size)) {
    insert.run({ from, to })
    showProgress(size, to, startedAt, 'users')
  }
  for (const [index, { sql }] of dropped.entries()) {
    database.exec(sql)
    showProgress(dropped.length, index + 1, startedAt, 'indexes')
  }
  database.prepare('UPDATE users_summary SET user_count = ?').run(size)
  database.pragma('journal_mode = WAL')
  database.close()
  const filledMs = performance.now() - startedAt
  await migrate(url, '--reindex')
  return { url, filledMs, bytes: statSync(url).size, drop: async () => {} }
}

/** The same on PostgreSQL. Its triggers count the users of each chunk. */
export async function makePostgresDatabase(postgres, size) {
  const url = await postgres.createDatabase()
  await migrate(url)
  const startedAt = performance.now()
  const { rows: dropped } = await postgres.query(url, SELECT_INDEXES)
  for (const { name } of dropped) await postgres.query(url, `DROP INDEX ${name}`)
  for (const chunk of chunksOf(size)) {
    await postgres.query(url, FILL_POSTGRES, chunk)
    showProgress(size, chunk[1], startedAt, 'users')
  }
  for (const [index, { sql }] of dropped.entries()) {
    await postgres.query(url, sql)
    showProgress(dropped.length, index + 1, startedAt, 'indexes')
  }
  await postgres.query(url, 'VACUUM ANALYZE')
  const filledMs = performance.now() - startedAt
  const { rows } = await postgres.query(url, 'SELECT pg_database_size(current_database()) AS bytes')
  return { url, filledMs, bytes: Number(rows[0].bytes), drop: () => postgres.drop(url) }
}

function* chunksOf(size) {
  for (let from = 1; from <= size; from += CHUNK) yield [from, Math.min(from + CHUNK - 1, size)]
}

function showProgress(total, done, startedAt, what) {
  if (!process.stderr.isTTY) return
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  const bar = '#'.repeat(Math.round((done / total) * 30)).padEnd(30, '.')
  process.stderr.write(`\r[${bar}] ${done.toLocaleString('en')} ${what}, ${seconds} s\x1b[K`)
  if (done === total) process.stderr.write('\n')
}
