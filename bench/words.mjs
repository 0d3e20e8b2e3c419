// What the index of words adds to a create and to an import: the same service on databases with the index, and on databases
// where a trigger drops what would be written to it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Database } from '../dist/storage/sqlite/sqlite-driver.js'
import { wordsOfUser } from '../dist/users/words.js'
import { loadGenerator } from './load.mjs'
import { median } from './report.mjs'
import { migrate, SERVICE, startProcess } from './servers.mjs'

const CONNECTIONS = 50
const WARM_UP_SECONDS = 1
const SECONDS = 3
const MADE_USERS = 200_000

const DROP_WORDS_IN_SQLITE = `
  DROP TABLE users_words;
  CREATE TABLE users_words (users_words, prefixes);
  CREATE TRIGGER no_words BEFORE INSERT ON users_words BEGIN SELECT RAISE(IGNORE); END`

const DROP_WORDS_IN_POSTGRES = `
  CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
  CREATE TRIGGER no_words BEFORE INSERT ON users_words FOR EACH ROW EXECUTE FUNCTION drop_row()`

/** What wordsTable of tables.mjs shows. `postgres` is undefined for SQLite. */
export async function measureWords({ folder, postgres, run, rounds, users }) {
  const load = loadGenerator()
  const file = join(folder, 'users.ndjson')
  await writeUsers(file, users)
  const creates = { with: [], without: [] }
  const imports = { with: [], without: [] }
  for (let round = 0; round < rounds; round++) {
    const kinds = round % 2 === 0 ? ['with', 'without'] : ['without', 'with']
    for (const kind of kinds) {
      process.stderr.write(`round ${round + 1} of ${rounds}: ${kind} the index\n`)
      const home = join(folder, `${kind}-${round}`)
      creates[kind].push(await measureCreates({ home, kind, postgres, load }))
      imports[kind].push(await measureImport({ home: `${home}-import`, kind, postgres, file }))
    }
  }
  return {
    run: { ...run, rounds },
    makeMicros: measureMaking(rounds),
    create: { withMicros: median(creates.with), withoutMicros: median(creates.without) },
    imported: {
      users,
      withSeconds: median(imports.with),
      withoutSeconds: median(imports.without),
    },
  }
}

async function measureCreates({ home, kind, postgres, load }) {
  const database = await makeDatabase({ home, kind, postgres })
  try {
    const env = { DATABASE_URL: database.url, PORT: '0', LOG_LEVEL: 'warn' }
    const service = await startProcess({ env, home })
    try {
      const usage = async () => {
        const { clientMicros = 0 } = (await database.cpu?.()) ?? {}
        return (await service.usage()).cpuMicros + clientMicros
      }
      const drive = (seconds, part) =>
        load.drive({
          urls: [service.url],
          headers: {},
          workload: 'create',
          users: 1,
          run: part,
          connections: CONNECTIONS,
          seconds,
        })
      await drive(WARM_UP_SECONDS, 'warm')
      const before = await usage()
      const { requests, failed } = await drive(SECONDS, 'measured')
      if (failed > 0) throw new Error(`${failed} creates failed`)
      return ((await usage()) - before) / requests
    } finally {
      await service.stop()
    }
  } finally {
    await database.drop()
  }
}

/** Seconds, with the start of the process. */
async function measureImport({ home, kind, postgres, file }) {
  const { url, hasWords, drop } = await makeDatabase({ home, kind, postgres })
  try {
    const startedAt = performance.now()
    const child = spawn(process.execPath, [SERVICE, 'import', file], {
      env: { ...process.env, DATABASE_URL: url },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`the import ended with ${code}`)
    const seconds = (performance.now() - startedAt) / 1000
    if ((await hasWords()) !== (kind === 'with')) throw new Error(`not ${kind} the index`)
    return seconds
  } finally {
    await drop()
  }
}

async function makeDatabase({ home, kind, postgres }) {
  mkdirSync(home)
  const url =
    postgres === undefined ? join(home, 'users.db') : await postgres.createDatabase(undefined)
  await migrate(url)
  if (postgres !== undefined) {
    if (kind === 'without') await postgres.query(url, DROP_WORDS_IN_POSTGRES)
    return {
      url,
      cpu: postgres.cpuOf(url),
      hasWords: async () =>
        (await postgres.query(url, 'SELECT FROM users_words LIMIT 1')).rowCount > 0,
      drop: () => postgres.drop(url),
    }
  }
  const withDatabase = work => {
    const database = new Database(url)
    try {
      return work(database)
    } finally {
      database.close()
    }
  }
  if (kind === 'without') withDatabase(database => database.exec(DROP_WORDS_IN_SQLITE))
  // Rows behind the first two are of the index.
  const select =
    kind === 'with'
      ? 'SELECT id FROM users_words_data WHERE id > 10 LIMIT 1'
      : 'SELECT rowid FROM users_words LIMIT 1'
  return {
    url,
    hasWords: async () => withDatabase(database => database.prepare(select).get() !== undefined),
    drop: async () => {},
  }
}

/** Microseconds for the words of one user, which the service makes in its own process. */
function measureMaking(rounds) {
  const times = Array.from({ length: rounds }, () => {
    const startedAt = performance.now()
    for (let id = 0; id < MADE_USERS; id++) wordsOfUser(userOf(id))
    return ((performance.now() - startedAt) * 1000) / MADE_USERS
  })
  return median(times)
}

async function writeUsers(path, users) {
  const file = createWriteStream(path)
  for (let id = 1; id <= users; id++) {
    if (!file.write(`${JSON.stringify(userOf(id))}\n`)) await once(file, 'drain')
  }
  file.end()
  await once(file, 'finish')
}

function userOf(id) {
  const serial = ((id * 2654435761) >>> 0).toString(36)
  return { name: `User ${serial} Number ${id}`, email: `${serial}.${id}@example.com` }
}
