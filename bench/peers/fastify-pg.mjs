// Fastify with schemas on PostgreSQL, with a pool of connections and one query per request.
import fastify from 'fastify'
import pg from 'pg'
import { addUserRoutes, listen } from './fastify-routes.mjs'

const COLUMNS = 'id, name, email, created_at, updated_at'

const LIST = `SELECT ${COLUMNS} FROM users WHERE id > $1 ORDER BY id LIMIT 100`

const FIND = `SELECT ${COLUMNS} FROM users WHERE id = $1`

const INSERT = `INSERT INTO users (name, email) VALUES ($1, $2) RETURNING ${COLUMNS}`

const RENAME = `UPDATE users SET name = $1, updated_at = now() WHERE id = $2 RETURNING ${COLUMNS}`

const pool = new pg.Pool({ connectionString: process.env.DATABASE, max: 10 })

const app = fastify()
addUserRoutes(app, {
  find: async id => (await pool.query(FIND, [id])).rows[0],
  list: async (after = 0) => (await pool.query(LIST, [after])).rows,
  create: async ({ name, email }) => (await pool.query(INSERT, [name, email])).rows[0],
  rename: async (id, name) => (await pool.query(RENAME, [name, id])).rows[0],
})
process.once('SIGTERM', async () => {
  await app.close()
  await pool.end()
})
await listen(app)
