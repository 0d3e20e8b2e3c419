// Databases full of made-up users.
import { copyFileSync, rmSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { CREATE_POSTGRES_TABLE, CREATE_TABLE } from './peers/users-table.mjs'
import { runService } from './servers.mjs'

/** One user was created every so many milliseconds, the one with the id 0 at the first of these times. */
export const CREATED_EVERY_MS = 10_000
export const FIRST_CREATED = 1_600_000_000_000

const SYLLABLES =
  'an ber ca da el fa go hi is jo ka lo ma no ol pe qui ro sa ti ul vi wa xe yo za sen ton man ski ner lin'

/** Replaces the tables of the service in its own schema. */
const REPLACE_POSTGRES_TABLES = `
  CREATE SCHEMA peers;
  SET search_path TO peers;
  ${CREATE_POSTGRES_TABLE}
  INSERT INTO users (name, email, created_at, updated_at)
  SELECT name, email, created_at::timestamptz, updated_at::timestamptz FROM public.users ORDER BY id;
  DROP SCHEMA public CASCADE;
  ALTER SCHEMA peers RENAME TO public;`

/** First and last names. The first ones of a list are far more frequent than the others. */
export function createNames() {
  let seed = 1
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    return seed / 0x80000000
  }
  const syllables = SYLLABLES.split(' ')
  const makeWord = () => {
    const count = 2 + Math.floor(random() ** 2 * 4)
    return Array.from(
      { length: count },
      () => syllables[Math.floor(random() * syllables.length)],
    ).join('')
  }
  const pick = words => words[Math.floor(random() ** 3 * words.length)]
  const firsts = Array.from({ length: 3000 }, makeWord)
  const lasts = Array.from({ length: 30_000 }, makeWord)
  return { first: () => pick(firsts), last: () => pick(lasts) }
}

/**
 * A database of the service with `size` users, on PostgreSQL or in the folder `home`: its `url`, its size in `bytes`, `drop()`,
 * and `copy(home)`, which has `url`, `drop()`, and on PostgreSQL `cpu` of `cpuOf`.
 */
export async function makeDatabase({ postgres, home, size }) {
  const url = postgres === undefined ? join(home, 'service.db') : await postgres.createDatabase()
  const input = join(home, 'users.ndjson')
  await writeFile(input, linesOf(size))
  await runService(url, 'import', input)
  rmSync(input)
  return databaseAt(url, postgres)
}

/** A database of the peers with the users of `ours`. */
export async function makePeerDatabase({ postgres, home, ours }) {
  if (postgres !== undefined) {
    const url = await postgres.createDatabase(ours.url)
    await postgres.query(url, REPLACE_POSTGRES_TABLES)
    return databaseAt(url, postgres)
  }
  const url = join(home, 'peers.db')
  const database = new Database(url)
  database.exec(CREATE_TABLE)
  database.prepare('ATTACH ? AS service').run(ours.url)
  database.exec(`
    INSERT INTO main.users SELECT id, name, email, created_at, updated_at FROM service.users`)
  database.close()
  return databaseAt(url)
}

async function databaseAt(url, postgres) {
  if (postgres === undefined) {
    return {
      ...{ url, bytes: statSync(url).size, drop: async () => {} },
      copy: async folder => {
        const copied = join(folder, 'users.db')
        copyFileSync(url, copied)
        return { url: copied, drop: async () => {} }
      },
    }
  }
  await postgres.query(url, 'VACUUM ANALYZE')
  const { rows } = await postgres.query(url, 'SELECT pg_database_size(current_database()) AS bytes')
  return {
    ...{ url, bytes: Number(rows[0].bytes), drop: () => postgres.drop(url) },
    copy: async () => {
      const copied = await postgres.createDatabase(url)
      return { url: copied, drop: () => postgres.drop(copied), cpu: postgres.cpuOf(copied) }
    },
  }
}

function* linesOf(size) {
  const names = createNames()
  for (let id = 1; id <= size; id++) {
    const [first, last] = [names.first(), names.last()]
    const time = new Date(FIRST_CREATED + id * CREATED_EVERY_MS).toISOString()
    const name = `${capital(first)} ${capital(last)}`
    const email = `${first}.${last}${id}@example.com`
    yield `${JSON.stringify({ name, email, created_at: time, updated_at: time })}\n`
  }
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1)
}
