// Makes the databases of older releases that `test/storage/upgrade.test.ts` takes over, with what clients saw of them. Run it
// only to change what they contain. It builds the old commits from git, and makes databases on the given server and drops them.
// Usage: node scripts/make-old-databases.mjs postgres://USER@HOST:PORT/DATABASE [SET...]
// SET: sqlite/oldest, postgres/oldest, sqlite/newest or postgres/newest; all if left out.

import { execFileSync, execSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/** The commit that makes each set. */
const COMMITS = {
  // 0.1.0, which knew SQLite only.
  'sqlite/oldest': '0c878421622832f3026f5a05e238b9e21b0b9b1b',
  // The oldest one whose schema of PostgreSQL can be taken over.
  'postgres/oldest': '1d43714acfddf1ed3627c51f3df0197062b601c4',
  'sqlite/newest': 'd5aca492e53cc4e49fb1698d175e993d4f8cbd4f',
  'postgres/newest': 'd5aca492e53cc4e49fb1698d175e993d4f8cbd4f',
}

const PROJECT = fileURLToPath(new URL('../', import.meta.url))

const FIXTURES = join(PROJECT, 'test/support/old-databases')

/** Each name with a search that must find it, and it alone, after the upgrade. */
const NAMES = [
  ['Ada Lovelace', 'lov ada'],
  ['Zoë Straße', 'strasse'],
  ['Łódź Ægir', 'aegir lodz'],
  ['王小明', '王小'],
  ['김철수', '김'],
  ['ΜΑΡΊΑ ΠΑΠΑΔΟΠΟΎΛΟΥ', 'μαρια'],
  ['µtorrent', 'μtor'],
  ['ſam Gamgee', 'sam'],
  ['Дмитрий Менделеев', 'менд'],
  ['שָׁלוֹם עֲלֵיכֶם', 'שלום'],
  ['عَلِيّ', 'علي'],
  ['देवनागरी', 'देव'],
  ['ガネーシャ', 'ガネ'],
  [`O'Brien "Quote" \\ Backslash`, 'brien back'],
  ['𝒜𝓃𝓃 Fancy', 'ann fan'],
  ['İstanbul', 'istan'],
  ['Jürgen 👩‍👩‍👧 Groß', 'gross jur'],
  ['ẛtrange', 'strange'],
]

/** E-mails with a digest of each kind that can be imported, all of the password `imported`. */
const DIGESTS = {
  'argon2id@x.co':
    '$argon2id$v=19$m=4096,t=3,p=1$3E8F19rp4okdplxNBc4X3w$6NcKo00EXzqN2vpvPEdb8OAhSmkEzzJTYQlilsNrrsM',
  'argon2i@x.co':
    '$argon2i$v=19$m=4096,t=3,p=1$o30y3Hwlnn9MHuGWoYtTOA$ISHUUtbhZu7KYx7HVblj2HDja4jvjU1Q2hLR73CX3iM',
  'argon2d@x.co':
    '$argon2d$v=19$m=4096,t=3,p=1$GKNShfc9PXAJ1ZZkeI5nEw$sI3I6wbbe76ZR85LnKC9uhDGt8vhCRbQAHbtc3NVGxw',
  'bcrypt@x.co': '$2b$05$soXdCSZYOSc7MosagOCQ4O3y7RJMS1zUOFt6MeOE45w8tQbER6j5G',
  'bcrypt-2y@x.co': '$2y$05$soXdCSZYOSc7MosagOCQ4O3y7RJMS1zUOFt6MeOE45w8tQbER6j5G',
  'bcrypt-phc@x.co': '$bcrypt$v=98$r=5$uqZfEUbaQUe9OquciQES6Q$509TLOU31WQHv8OgQG67y+vSdGT8l7I',
  'scrypt@x.co':
    '$scrypt$ln=12,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$Y+xqjyFpRkkvoM9MzaPUQjZ8POTFNeVfg9ZfS9uftDI',
}

const [server, ...sets] = process.argv.slice(2)
if (server === undefined) throw new Error('the URL of a server of PostgreSQL is missing')

for (const set of sets.length > 0 ? sets : Object.keys(COMMITS)) {
  const target = join(FIXTURES, set)
  const folder = fs.mkdtempSync(join(tmpdir(), 'old-database-'))
  fs.mkdirSync(target, { recursive: true })
  await (set.startsWith('sqlite') ? makeSqlite : makePostgres)({ set, folder, target })
  fs.rmSync(folder, { recursive: true })
}
execFileSync('npx', ['biome', 'format', '--write', FIXTURES], { stdio: 'inherit' })

async function makeSqlite({ set, folder, target }) {
  const databaseUrl = join(folder, 'users.db')
  await fill({ set, folder, target, databaseUrl })
  if (fs.existsSync(`${databaseUrl}-wal`)) throw new Error('the database is still open')
  fs.copyFileSync(databaseUrl, join(target, 'users.db'))
}

async function makePostgres({ set, folder, target }) {
  const name = `old_database_${process.pid}`
  const databaseUrl = new URL(`/${name}`, server).href
  const query = sql => execFileSync('psql', ['--quiet', '--command', sql, server])
  query(`CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`)
  try {
    await fill({ set, folder, target, databaseUrl })
    const options = ['--no-owner', '--no-privileges', '--no-comments', '--inserts']
    const dump = execFileSync('pg_dump', [...options, databaseUrl], { encoding: 'utf8' })
    // Without what only psql understands, and without settings that another version may not have.
    const statements = dump.replace(/^(\\|SET |--).*\n/gm, '').replace(/\n{3,}/g, '\n\n')
    fs.writeFileSync(join(target, 'users.sql'), statements)
  } finally {
    query(`DROP DATABASE ${name} WITH (FORCE)`)
  }
}

/** Does with an old release what clients and operators do. Writes what they saw to `seen.json`. */
async function fill({ set, folder, target, databaseUrl }) {
  const hasKeys = set.endsWith('newest')
  const limits = {
    bans: [
      banRule('x-client', 'header:x-client'),
      banRule('authorization', 'header:authorization'),
      banRule('address', 'ip'),
      ...(hasKeys ? [banRule('key', 'key')] : []),
    ],
  }
  fs.writeFileSync(join(folder, 'limits.json'), JSON.stringify(limits))
  const settings = { LIMITS_FILE: 'limits.json', TRUST_PROXY: '1', PORT: '0' }
  const main = buildCommit(COMMITS[set])
  const start = (args = [], env = {}) => {
    const { PATH } = process.env
    const all = { PATH, DATABASE_URL: databaseUrl, ...settings, ...env }
    return startProgram([main, ...args], { cwd: folder, env: all })
  }
  const runs = (args, expected = 0) => end(start(args), expected)
  const serve = async (work, env) => {
    const service = start([], env)
    const url = await urlOf(service)
    const call = (method, path, body, headers = {}) =>
      request(url + path, { method, body, headers })
    try {
      return await work(call)
    } finally {
      service.child.kill('SIGTERM')
      await end(service, 0)
    }
  }

  const apiKeys = hasKeys ? await useApiKeys(serve, runs) : undefined
  const seen = await serve(async call => {
    await createUsers(call)
    const keys = await useKeys(call)
    const bans = await earnBans(call, runs)
    const imports = await importUsers({ folder, start, runs, call })
    await createAndDeleteLast(call)
    return {
      commit: COMMITS[set],
      madeAt: Date.now(),
      limits,
      ...(await readAll(call)),
      ...{ keys, bans, imports, apiKeys },
      deleted: [2, imports.lastId + 1],
      searches: NAMES.map(([name, q]) => ({ q, name })),
    }
  })
  fs.writeFileSync(join(target, 'seen.json'), JSON.stringify(seen, undefined, 2))
}

/** Makes API keys of each kind, uses some, and gets one banned. Returns them by name. */
async function useApiKeys(serve, runs) {
  const made = {
    reader: ['users:read', '--expires', '90d'],
    writer: ['users:read', 'users:write', 'passwords:verify'],
    banned: ['users:read'],
    revoked: ['users:read'],
    expired: ['users:read', '--expires', '1s'],
  }
  const apiKeys = {}
  for (const [name, scope] of Object.entries(made)) {
    const output = await runs(['keys', 'create', '--name', name, '--json', '--scope', ...scope])
    apiKeys[name] = JSON.parse(output).key
  }
  const use = async call => {
    await call('GET', '/users', undefined, { authorization: `Bearer ${apiKeys.writer}` })
    await call('GET', '/key', undefined, { authorization: `Bearer ${apiKeys.banned}` })
  }
  await serve(use, { API_KEYS: 'required' })
  await runs(['keys', 'revoke', 'revoked'])
  await sleep(1000)
  return apiKeys
}

function banRule(name, by) {
  return { name, by, path: `/${name}`, maxretry: 1, findtime: '1 minute', bantime: '1 day' }
}

async function createUsers(call) {
  for (const [index, [name]] of NAMES.entries()) {
    const password = index % 3 === 0 ? { password: `correct horse ${index}` } : {}
    await call('POST', '/users', { user: { name, email: `User${index}@Example.com`, ...password } })
  }
  for (let index = 0; index < 20; index++) {
    await call('POST', '/users', { user: { name: `Filler ${index % 5}`, email: `f${index}@x.co` } })
  }
  await call('PUT', '/users/3', { user: { name: NAMES[2][0], password: 'changed password' } })
  await call('PUT', '/users/30', { user: { name: 'Renamed Filler' } })
  await call('PUT', '/users/31', { user: { email: 'moved@x.co' } })
  await call('DELETE', '/users/2')
}

/** Creates with Idempotency-Keys, and what a repeat must be answered with. */
async function useKeys(call) {
  const bodies = {
    plain: { user: { name: 'Keyed', email: 'keyed@x.co' } },
    withPassword: { user: { email: 'secret@x.co', password: 'keyed password', name: 'Keyed 2' } },
    withMore: { user: { name: 'Keyed 3', email: 'more@x.co', admin: true }, more: [1, 2.5, 'ü'] },
    changedLater: { user: { name: 'Keyed 4', email: 'later@x.co' } },
    deletedLater: { user: { name: 'Keyed 5', email: 'gone@x.co' } },
  }
  const keys = []
  for (const [about, body] of Object.entries(bodies)) {
    const key = about === 'plain' ? `"${randomUUID()}"` : randomUUID()
    const answer = await call('POST', '/users', body, { 'idempotency-key': key })
    const { id } = JSON.parse(answer.text)
    keys.push({ about, key, body, ...answer })
    if (about === 'changedLater') await call('PUT', `/users/${id}`, { user: { name: 'Changed' } })
    if (about === 'deletedLater') await call('DELETE', `/users/${id}`)
  }
  return keys
}

async function earnBans(call, runs) {
  const earned = [
    { 'x-client': 'mallory' },
    { 'x-client': `${'long '.repeat(40)}é` },
    { authorization: 'Bearer of an older release' },
    { 'x-forwarded-for': '203.0.113.7' },
    { 'x-forwarded-for': '2001:db8:0:1ff::1' },
  ]
  for (const headers of earned) {
    const [name] = Object.keys(headers)
    const path = name === 'x-forwarded-for' ? '/address' : `/${name}`
    await call('GET', path, undefined, asBytes(headers))
  }
  await runs(['bans', 'add', 'address', '198.51.100.9'])
  await runs(['bans', 'add', 'authorization', 'Bearer that was added', '--for', '1 day'])
  return [
    ...earned,
    { 'x-forwarded-for': '198.51.100.9' },
    { authorization: 'Bearer that was added' },
  ]
}

/** Headers are sent a byte for each character. */
function asBytes(headers) {
  const entries = Object.entries(headers)
  return Object.fromEntries(
    entries.map(([name, text]) => [name, Buffer.from(text).toString('latin1')]),
  )
}

/** One import that ended, one that was killed, and one that ended at a conflict. */
async function importUsers({ folder, start, runs, call }) {
  const finished = Object.entries(DIGESTS).map(([email, digest], index) => ({
    id: 100 + index,
    name: `Imported ${index}`,
    email,
    password_digest: digest,
    created_at: '2019-05-06T07:08:09.123Z',
    updated_at: '2020-05-06T07:08:09.456Z',
  }))
  const finishedText = finished.map(row => `${JSON.stringify(row)}\n`).join('')
  fs.writeFileSync(join(folder, 'finished.ndjson'), finishedText)
  await runs(['import', 'finished.ndjson'])

  const lines = [
    '{"name": "First", "email": "first@x.co", "password": "from a file"}',
    '{"name": "", "email": "nobody"}',
    'no JSON',
    '',
    '{ "name":"Zwölf" , "email":"zwoelf@x.co" }',
    '{"name": "Fifth", "email": "fifth@x.co", "id": 300}',
    '{"name": "Sixth", "email": "sixth@x.co"}',
    '{"name": "Bad", "email": "bad"}',
    '{"name": "Last", "email": "last@x.co", "password": "from a file"}',
  ]
  const before = lines.slice(0, 5).join('\n')
  const total = await countUsers(call)
  const killed = start(['import', '-', '--format', 'ndjson', '--rejects', 'rejects.ndjson'])
  killed.child.stdin.write(`${before}\n`)
  while ((await countUsers(call)) < total + 2) await sleep(50)
  killed.child.kill('SIGKILL')
  await killed.exited

  const csv = [
    'email,name,note',
    'csv1@x.co,"Quoted; ""and"" more",x',
    'csv2@x.co,"Two\r\nlines",',
    'CSV3@x.co,  Blanks ,y',
    'f1@x.co,Taken,',
    'csv4@x.co,After,',
    '',
  ]
  const csvText = csv.join('\r\n')
  fs.writeFileSync(join(folder, 'conflict.csv'), csvText)
  await runs(['import', 'conflict.csv'], 1)

  const last = await call('POST', '/users', { user: { name: 'Next', email: 'next@x.co' } })
  return {
    lastId: JSON.parse(last.text).id,
    finished: finishedText,
    killed: `${lines.join('\n')}\n`,
    killedRejects: fs.readFileSync(join(folder, 'rejects.ndjson'), 'utf8'),
    conflict: csvText,
  }
}

/** The newest id is that of a deleted user, and must not be given out again. */
async function createAndDeleteLast(call) {
  const { text } = await call('POST', '/users', { user: { name: 'Gone', email: 'newest@x.co' } })
  await call('DELETE', `/users/${JSON.parse(text).id}`)
}

async function readAll(call) {
  const list = await call('GET', '/users?per_page=1000')
  const users = []
  for (const { id } of JSON.parse(list.text))
    users.push({ id, ...(await call('GET', `/users/${id}`)) })
  const walks = []
  for (const by of ['id', 'name', 'email', 'created_at', 'updated_at']) {
    for (const sort of [by, `-${by}`]) {
      const first = await call('GET', `/users?per_page=13&sort=${sort}`)
      const next = nextOf(first)
      const rest = []
      for (let at = next; at !== undefined; ) {
        const page = await call('GET', at)
        rest.push(...JSON.parse(page.text).map(({ id }) => id))
        at = nextOf(page)
      }
      walks.push({ sort, next, rest })
    }
  }
  const passwords = [
    ['user0@example.com', 'correct horse 0'],
    ['user2@example.com', 'changed password'],
    ['user3@example.com', 'correct horse 3'],
    ['secret@x.co', 'keyed password'],
    ['first@x.co', 'from a file'],
    ...Object.keys(DIGESTS).map(email => [email, 'imported']),
  ]
  return { list, users, walks, passwords }
}

function nextOf({ link }) {
  return /<([^>]+)>; rel="next"/.exec(link ?? '')?.[1]
}

async function countUsers(call) {
  return Number((await call('GET', '/users?per_page=1&count=true')).total)
}

async function request(url, { method, body, headers }) {
  const response = await fetch(url, {
    signal: AbortSignal.timeout(30_000),
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (response.status >= 500) throw new Error(`${method} ${url}: ${text}`)
  const header = name => response.headers.get(name) ?? undefined
  return {
    status: response.status,
    text,
    etag: header('etag'),
    location: header('location'),
    link: header('link'),
    total: header('x-total-count'),
  }
}

/** Installs and builds this project as it was at a commit, once. Returns the path of its `main.js`. */
function buildCommit(commit) {
  const built = join(tmpdir(), `user-records-service-${commit}`)
  if (!fs.existsSync(built)) {
    const folder = fs.mkdtempSync(`${built}-`)
    execSync(`git archive ${commit} | tar -x -C ${folder}`, { cwd: PROJECT })
    execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: 'inherit' })
    fs.renameSync(folder, built)
  }
  return join(built, 'dist/main.js')
}

function startProgram(args, options) {
  const child = spawn(process.execPath, args, options)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', chunk => {
      output += chunk
    })
  }
  return { child, output: () => output, exited: once(child, 'close').then(([code]) => code) }
}

/** The URL of a service, once it listens. */
async function urlOf({ output, child }) {
  for (;;) {
    const url = /"url":"([^"]+)"/.exec(output())?.[1]
    if (url !== undefined) return url
    if (child.exitCode !== null) throw new Error(output())
    await sleep(20)
  }
}

/** Waits for the end of a program. Returns its output. */
async function end({ child, output, exited }, expected) {
  child.stdin.end()
  const code = await exited
  if (code !== expected) throw new Error(`exited with ${code}: ${output()}`)
  return output()
}
