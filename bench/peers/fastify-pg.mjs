// Fastify with schemas on PostgreSQL, with a pool of connections and one query per request.
import fastify from 'fastify'
import pg from 'pg'
import { addUserRoutes } from './fastify-routes.mjs'
import { announce } from './users-table.mjs'

const COLUMNS = 'id, name, email, created_at, updated_at'

const LIST = `SELECT ${COLUMNS} FROM users ORDER BY id LIMIT 100`

const LIST_AFTER = `SELECT ${COLUMNS} FROM users WHERE id > $1 ORDER BY id LIMIT 100`

const FIND = `SELECT ${COLUMNS} FROM users WHERE id = $1`

const INSERT = `INSERT INTO users (name, email) VALUES ($1, $2) RETURNING ${COLUMNS}`

const RENAME = `UPDATE users SET name = $1, updated_at = now() WHERE id = $2 RETURNING ${COLUMNS}`

const pool = new pg.Pool({ connectionString: process.env.DATABASE, max: 10 })

const app = fastify()
addUserRoutes(app, {
  find: async id => (await pool.query(FIND, [id])).rows[0],
  list: async after => {
    const { rows } = await (after === undefined
      ? pool.query(LIST)
      : pool.query(LIST_AFTER, [after]))
    return rows
  },
  create: async ({ name, email }) => (await pool.query(INSERT, [name, email])).rows[0],
  rename: async (id, name) => (await pool.query(RENAME, [name, id])).rows[0],
})
await app.listen({ port: 0, host: '127.0.0.1' })
process.once('SIGTERM', async () => {
  await app.close()
  await pool.end()
})
announce(app.server.address().port)
