// The users table of the peers: ordinary statements, prepared once. DATABASE is the path of a copy of the database.
import { Database } from '../../dist/storage/sqlite/sqlite-driver.js'

const COLUMNS = 'id, name, email, created_at, updated_at'

/** Enough for a service that lists by id. The service of this project needs more: four indexes and a trigger. */
export const CREATE_TABLE = `
  CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX users_email_unique ON users (lower(email));`

export function openUsersTable() {
  const database = new Database(process.env.DATABASE)
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  const find = database.prepare(`SELECT ${COLUMNS} FROM users WHERE id = ?`)
  const list = database.prepare(`SELECT ${COLUMNS} FROM users ORDER BY id LIMIT 100`)
  const insert = database.prepare(`
    INSERT INTO users (name, email, created_at, updated_at) VALUES (?, ?, ?, ?) RETURNING ${COLUMNS}`)
  const rename = database.prepare(`
    UPDATE users SET name = ?, updated_at = ? WHERE id = ? RETURNING ${COLUMNS}`)
  return {
    find: id => find.get(id),
    list: () => list.all(),
    create: ({ name, email }) => {
      const now = new Date().toISOString()
      return insert.get(name, email, now, now)
    },
    rename: (id, name) => rename.get(name, new Date().toISOString(), id),
  }
}

/** Prints the address of this peer for the benchmark, in the format of the service's log. */
export function announce(port) {
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`)
}
