// Databases full of made-up users, filled quickly: by SQL, and indexes after the rows.
import { copyFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { wordsOfUser } from '../dist/users/words.js'
import { CREATE_POSTGRES_TABLE, CREATE_TABLE } from './peers/users-table.mjs'
import { runService } from './servers.mjs'

const CHUNK = 50_000

/** One user was created every so many milliseconds, the one with the id 0 at the first of these times. */
export const CREATED_EVERY_MS = 10_000
export const FIRST_CREATED = 1_600_000_000_000

const SYLLABLES =
  'an ber ca da el fa go hi is jo ka lo ma no ol pe qui ro sa ti ul vi wa xe yo za sen ton man ski ner lin'

const SELECT_SQLITE_INDEXES = `
  SELECT type, name, sql FROM sqlite_schema
  WHERE tbl_name = 'users' AND type IN ('index', 'trigger') AND sql IS NOT NULL`

const SELECT_POSTGRES_INDEXES = `
  SELECT indexname AS name, indexdef AS sql FROM pg_indexes
  WHERE tablename = 'users' AND indexname NOT IN (SELECT conname FROM pg_constraint)`

// The words are made afterwards.
const FILL_POSTGRES = `
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT name, lower(name), email, time, time FROM unnest($1::text[], $2::text[], $3::text[]) AS made (name, email, time)`

const FILL_POSTGRES_PEER = `
  INSERT INTO users (name, email, created_at, updated_at)
  SELECT name, email, time::timestamptz, time::timestamptz
  FROM unnest($1::text[], $2::text[], $3::text[]) AS made (name, email, time)`

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
 * A database with `size` users, of the service or (not `isOurs`) of the peers, on PostgreSQL or in the folder `home`: its
 * `url`, how long it took to fill and to index the words, its size in `bytes`, `drop()`, and `copy(home)`, which has
 * `url`, `drop()`, and on PostgreSQL `cpu` of `cpuOf`.
 */
export async function makeDatabase({ postgres, home, size, isOurs = true }) {
  const url =
    postgres === undefined
      ? join(home, isOurs ? 'service.db' : 'peers.db')
      : await postgres.createDatabase()
  if (isOurs) await runService(url, 'migrate')
  const fillSeconds = await secondsOf(() =>
    postgres === undefined
      ? fillSqlite(url, size, isOurs)
      : fillPostgres(postgres, url, size, isOurs),
  )
  const indexSeconds = isOurs ? await secondsOf(() => runService(url, 'migrate', '--reindex')) : 0
  if (postgres === undefined) {
    return {
      ...{ url, fillSeconds, indexSeconds, bytes: statSync(url).size, drop: async () => {} },
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
    ...{ url, fillSeconds, indexSeconds, bytes: Number(rows[0].bytes) },
    drop: () => postgres.drop(url),
    copy: async () => {
      const copied = await postgres.createDatabase(url)
      return { url: copied, drop: () => postgres.drop(copied), cpu: postgres.cpuOf(copied) }
    },
  }
}

async function fillSqlite(url, size, isOurs) {
  const database = new Database(url)
  database.pragma('journal_mode = OFF')
  database.pragma('synchronous = OFF')
  database.pragma('cache_size = -1000000')
  if (!isOurs) database.exec(CREATE_TABLE)
  const dropped = database.prepare(SELECT_SQLITE_INDEXES).all()
  for (const { type, name } of dropped) database.exec(`DROP ${type} ${name}`)
  const folded = isOurs ? ['name_lower, words, ', 'lower(@name), @words, '] : ['', '']
  const insert = database.prepare(`
    INSERT INTO users (name, ${folded[0]}email, created_at, updated_at)
    VALUES (@name, ${folded[1]}@email, @time, @time)`)
  const insertAll = database.transaction(users => {
    for (const user of users) insert.run(isOurs ? { ...user, words: wordsOfUser(user) } : user)
  })
  for (const users of chunksOf(size)) insertAll(users)
  for (const { sql } of dropped) database.exec(sql)
  if (isOurs) {
    database.prepare('UPDATE users_summary SET user_count = ?').run(size)
    database.exec(`INSERT INTO users_words (users_words) VALUES ('rebuild')`)
  }
  database.pragma('journal_mode = WAL')
  database.close()
}

/** Its triggers count the users. */
async function fillPostgres(postgres, url, size, isOurs) {
  if (!isOurs) await postgres.query(url, CREATE_POSTGRES_TABLE)
  const { rows: dropped } = await postgres.query(url, SELECT_POSTGRES_INDEXES)
  for (const { name } of dropped) await postgres.query(url, `DROP INDEX ${name}`)
  for (const users of chunksOf(size)) {
    const columns = ['name', 'email', 'time'].map(key => users.map(user => user[key]))
    await postgres.query(url, isOurs ? FILL_POSTGRES : FILL_POSTGRES_PEER, columns)
  }
  for (const { sql } of dropped) await postgres.query(url, sql)
}

function* chunksOf(size) {
  const names = createNames()
  for (let from = 1; from <= size; from += CHUNK) {
    const length = Math.min(CHUNK, size - from + 1)
    yield Array.from({ length }, (_, index) => makeUser(from + index, names))
    if (process.stderr.isTTY) process.stderr.write(`\r${from + length - 1} of ${size} users\x1b[K`)
  }
  if (process.stderr.isTTY) process.stderr.write('\n')
}

function makeUser(id, names) {
  const [first, last] = [names.first(), names.last()]
  return {
    name: `${capital(first)} ${capital(last)}`,
    email: `${first}.${last}${id}@example.com`,
    time: new Date(FIRST_CREATED + id * CREATED_EVERY_MS).toISOString(),
  }
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1)
}

async function secondsOf(work) {
  const startedAt = performance.now()
  await work()
  return (performance.now() - startedAt) / 1000
}
