// Measures how the time of a request depends on the number of users: fills a database, sends requests to the built service one
// after another, prints a table.
// Usage: npm run bench:scale -- [--engine sqlite] [--write] [USERS ...]; the default is 10000, 100000 and 1000000. The engine is
// sqlite or postgres. npm run bench:search measures lists with `q` in the same way. --write keeps the result in
// bench/measured.json and writes the documents that are made from it.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createClient, succeeded, timesOf } from './client.mjs'
import { CREATED_EVERY_MS, createNames, FIRST_CREATED, makeDatabase } from './databases.mjs'
import { sizesTable } from './documents.mjs'
import { currentRun, writePart } from './measured.mjs'
import { readOptions } from './options.mjs'
import { openEngine } from './postgres.mjs'
import { temporaryFolder } from './programs.mjs'
import { startProcess } from './servers.mjs'

const SAMPLES = 400

/** Of requests that may take long. */
const RARE_SAMPLES = 5

const WARM_UP = 100

const PARTS = { scale: measureScale, search: measureSearch }

// package.json gives the first argument.
const [part] = process.argv.splice(2, 1)
if (!Object.hasOwn(PARTS, part))
  throw new Error('usage: scale.mjs scale|search [OPTION ...] [USERS ...]')
const { engine, sizes, write } = readOptions({
  users: [[10_000, 100_000, 1_000_000], 10_000, 10_000_000],
})
const postgres = await openEngine(engine)
const folder = temporaryFolder()
const run = currentRun()
const columns = []
try {
  for (const size of sizes) columns.push(await measure(size))
} finally {
  await postgres?.close()
}
console.log(sizesTable({ run, columns }))
if (write) writePart(part, engine, { run, columns })

async function measure(size) {
  const home = join(folder, String(size))
  mkdirSync(home)
  const database = await makeDatabase({ postgres, home, size })
  const env = { DATABASE_URL: database.url, PORT: '0', LOG_LEVEL: 'info' }
  const service = await startProcess({ env, home })
  const client = createClient(service.url)
  const get = target => succeeded(client.ask(target))
  try {
    await timesOf(WARM_UP, index => get(`/users/${1 + index}`))
    const ms = await PARTS[part]({ get, size, url: service.url, client })
    const { fillSeconds, indexSeconds, bytes } = database
    return { users: size, fillSeconds, indexSeconds, bytes, ms }
  } finally {
    client.close()
    await service.stop()
    await database.drop()
  }
}

async function measureScale({ get, size, client }) {
  const someId = () => 1 + Math.floor(Math.random() * size)
  const deepPage = Math.floor(size / 2 / 100)
  const emails = []
  for (let count = 0; count < 50; count++) {
    emails.push(JSON.parse((await get(`/users/${someId()}`)).body).email)
  }
  const pages = '/users?sort=name&per_page=100'
  const deep = await nextOf(get, `${pages}&page=${deepPage}`)
  return {
    'one user by id': await timesOf(SAMPLES, () => get(`/users/${someId()}`)),
    'one user by e-mail': await timesOf(SAMPLES, index =>
      get(`/users?email=${emails[index % 50].toUpperCase()}`),
    ),
    'create, on disk': await timesOf(SAMPLES, index =>
      succeeded(
        client.ask('/users', {
          method: 'POST',
          user: { name: `Name ${index}`, email: `new${index}@example.com` },
        }),
      ),
    ),
    'first page by name': await timesOf(SAMPLES, index => get(resized(pages, index))),
    'deep page by name, by cursor': await timesOf(SAMPLES, index => get(resized(deep, index))),
    'deep page by number': await timesOf(RARE_SAMPLES, index =>
      get(`/users?page=${deepPage - index}`),
    ),
    'half of the users by time, first page by name': await timesOf(RARE_SAMPLES, index =>
      get(`${pages}&${rangeOf(1 + index, Math.floor(size / 2))}`),
    ),
    'a count of half of the users by time': await timesOf(RARE_SAMPLES, index =>
      get(`/users?per_page=1&count=true&${rangeOf(1 + index, Math.floor(size / 2))}`),
    ),
  }
}

/** Lists with `q` of names that some users have, and of `example`, which is in the e-mail of each. */
async function measureSearch({ get, url }) {
  const names = createNames()
  const words = Array.from({ length: SAMPLES }, (_, index) =>
    (index % 2 === 0 ? names.first() : names.last()).slice(0, 3 + (index % 4)),
  )
  const list = q => `/users?per_page=100&q=${encodeURIComponent(q)}`
  const all = list('example')
  const counted = index => `${resized(list('exampl'), index)}&count=true`
  return {
    'a word, first page by id': await timesOf(SAMPLES, index => get(list(words[index]))),
    'two words': await timesOf(SAMPLES, index =>
      get(list(`${words[index].slice(0, 3)} ${words.at(-index).slice(0, 2)}`)),
    ),
    'a word, first page by name': await timesOf(SAMPLES / 4, index =>
      get(`${list(words[index])}&sort=name`),
    ),
    'a word that all have, by name': await timesOf(RARE_SAMPLES, index =>
      get(`${resized(all, index)}&sort=name`),
    ),
    'count of a word that all have': await timesOf(RARE_SAMPLES, index => get(counted(index))),
    'meanwhile: one user by id': await meanwhile(url, index => get(counted(index))),
  }
}

/** Times of a short request while long ones run one after another. */
async function meanwhile(url, long) {
  let isOver = false
  const busy = (async () => {
    for (let index = RARE_SAMPLES; !isOver; index++) await long(index)
  })()
  const client = createClient(url)
  const times = await timesOf(SAMPLES, () => succeeded(client.ask('/users/1')))
  isOver = true
  await busy
  client.close()
  return times
}

/** The path of the page behind a page. */
async function nextOf(get, target) {
  const { headers } = await get(target)
  return /<([^>]*)>; rel="next"/.exec(headers.link)[1]
}

/** A page of another number of users, about 100. The service remembers 50 lists, fewer than there are such pages. */
function resized(target, index) {
  return target.replace('per_page=100', `per_page=${71 + (index % 60)}`)
}

/** The parameters for `count` users by the time of their creation, from the one with the id `first`. */
function rangeOf(first, count) {
  const before = new Date(FIRST_CREATED + (first - 0.5) * CREATED_EVERY_MS)
  const after = new Date(before.getTime() + count * CREATED_EVERY_MS)
  return `created_after=${before.toISOString()}&created_before=${after.toISOString()}`
}
