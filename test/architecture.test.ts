import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const SOURCE = fileURLToPath(new URL('../src', import.meta.url))

/** Which rooms each room may know; one without a row may know none. What is in a folder within a room is a room of its own. */
const ALLOWED = tableOf(`
  main: cli
  cli: access cli/limits cli/serve cli/terminal cli/transfer config errors limits storage users webhooks wiring
  cli/transfer: cli/terminal config errors users users/passwords users/transfer wiring
  cli/serve: config errors limits/kinds ops ops/management server service wiring
  cli/limits: access cli/terminal config errors limits limits/kinds limits/rules server service wiring
  library: config errors limits/kinds service wiring
  cli/terminal: config errors storage wiring
  service: access app config http limits/kinds ops ops/management server storage users wiring
  wiring: access config errors limits limits/kinds ops/management ops/metrics storage storage/postgres
      storage/postgres/maintenance storage/redis storage/sqlite storage/sqlite/maintenance users users/passwords
      users/transfer webhooks
  storage/sqlite/maintenance: storage storage/sqlite
  storage/postgres/maintenance: config storage storage/postgres
  ops/management: config errors http http/pages limits limits/kinds limits/rules ops ops/metrics server
      users webhooks
  storage/sqlite: errors limits storage users users/transfer
  storage/postgres: config errors limits storage users users/transfer
  ops/metrics: http limits ops server storage webhooks
  storage: access errors limits users users/transfer webhooks
  app: access config http http/pages limits/kinds ops users
  users/transfer: errors http users users/passwords
  storage/redis: config limits
  limits/kinds: config errors http limits limits/rules
  webhooks: errors users
  http/pages: errors http http/openapi
  users: errors http http/openapi users/passwords
  ops: config http http/openapi
  limits: errors http limits/rules
  limits/rules: config http
  http/openapi: errors http
  server: config errors http http/fast
  access: errors http
  http: errors http/fast
  users/passwords: errors users/passwords/digests
  http/fast: errors
  platform: errors
  config: errors`)

/** What any room may know, as it knows Node. */
const GROUND = ['platform']

/** Files that may know a room which the rest of theirs may not. */
const ONLY = tableOf(`
  ops -> config: ops/logger.ts
  storage/sqlite -> limits: storage/sqlite/sqlite-ban-store.ts
  storage/sqlite -> users/transfer: storage/sqlite/sqlite-user-import-store.ts
  storage/postgres -> limits: storage/postgres/postgres-ban-store.ts
  storage/postgres -> users/transfer: storage/postgres/postgres-user-import-store.ts
  users -> http/openapi: users/user-openapi.ts`)

/** Files, or folders with all that is in them, that may import a package. */
const PACKAGE_DOORS = tableOf(`
  better-sqlite3: storage/sqlite/sqlite-driver.ts
  express: access/key-checks.ts http library library.ts limits app.ts ops/health.ts ops/management server
      service.ts users/change-feed.ts users/user-router.ts
  express-rate-limit: limits
  @redis/client: storage/redis
  pg: storage/postgres
  prom-client: ops/metrics
  tldts: limits
  jsonc-parser: platform/json-lines.ts cli/transfer/scan-json.ts
  commander: cli
  csv-stringify/sync: cli users/user-lists.ts
  @node-rs/argon2: users/passwords/digests/argon2.ts
  @node-rs/bcrypt: users/passwords/digests/bcrypt.ts`)

/** Names with what follows `: ` on their line and on those that begin with four more blanks. */
function tableOf(text: string): ReadonlyMap<string, readonly string[]> {
  const rows = text.trim().split(/\n {2}(?! )/)
  return new Map(
    rows.map(row => {
      const [name = '', values = ''] = row.split(': ')
      return [name, values.split(/\s+/)]
    }),
  )
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts'))
    .map(file => file.split(sep).join('/'))
}

/** Its folder, however deep; a file at the top is a room of its own, with the folder of its name. */
function roomOf(file: string): string {
  return file.includes('/') ? dirname(file) : file.replace(/\.ts$/, '')
}

/** Of types too, and those that are loaded when they are needed. */
function importsIn(text: string): string[] {
  const expression =
    /^(?:import|export)\b[^'"]*?from '([^']+)'|^import '([^']+)'|\bimport\(\s*'([^']+)'/gm
  return Array.from(
    text.matchAll(expression),
    ([, from, alone, late]) => from ?? alone ?? late ?? '',
  )
}

/** What of `names` is in the project, by its path in `src`. */
function targetsOf(file: string, names: readonly string[]): string[] {
  return names
    .filter(name => name.startsWith('.'))
    .map(name => join(dirname(file), name).split(sep).join('/'))
}

const files = filesIn(SOURCE).map(file => {
  const text = readFileSync(join(SOURCE, file), 'utf8')
  const imports = importsIn(text)
  return { file, room: roomOf(file), text, imports, targets: targetsOf(file, imports) }
})

/** Each use of a room by a file of another one. */
const uses = files.flatMap(({ file, room, targets }) =>
  targets
    .map(roomOf)
    .filter(known => known !== room && !GROUND.includes(known))
    .map(known => ({ file, room, known, arrow: `${room} -> ${known}` })),
)

const allowed = [...ALLOWED].flatMap(([room, known]) => known.map(name => `${room} -> ${name}`))

test('the arrows between rooms point one way', () => {
  const floors: string[] = []
  const rooms = [...new Set(files.map(({ room }) => room))]
  while (floors.length < rooms.length) {
    const next = rooms.filter(
      room =>
        !floors.includes(room) && (ALLOWED.get(room) ?? []).every(name => floors.includes(name)),
    )
    expect(next, `rooms in a circle, above ${floors.join(', ')}`).not.toEqual([])
    floors.push(...next)
  }
})

test('imports only the rooms that its own may know: each file of src', () => {
  const strangers = uses.filter(({ file, arrow }) => {
    return !allowed.includes(arrow) || ONLY.get(arrow)?.includes(file) === false
  })
  expect(strangers).toEqual([])
})

test('each arrow of the tables is used by a file', () => {
  const used = new Set(uses.map(({ arrow }) => arrow))
  expect([...allowed, ...ONLY.keys()].filter(arrow => !used.has(arrow))).toEqual([])
})

test('imports guarded packages only behind their door: each file of src', () => {
  const strangers = files.flatMap(({ file, imports }) =>
    imports
      .filter(name => PACKAGE_DOORS.get(name)?.every(door => !`${file}/`.startsWith(`${door}/`)))
      .map(name => ({ file, name })),
  )
  expect(strangers).toEqual([])
})

test('limits are enforced by the middleware of express-rate-limit alone', () => {
  const using = (expression: RegExp) =>
    files.filter(({ text }) => expression.test(text)).map(({ file }) => file)
  const door = 'limits/limit-requests.ts'
  expect(using(/^import \{ rateLimit \} from 'express-rate-limit'$/m)).toEqual([door])
  expect(using(/\brateLimit\(\{/)).toEqual([door])
  // What it counts is denied by its handler, and nobody else says so.
  expect(using(/new ServiceError\('rate_limited'/)).toEqual([door])
})

test('only wiring/engines.ts names an engine', () => {
  const naming = uses.filter(({ known, room }) => {
    const isEngine = (name: string) => /^storage\/(?:sqlite|postgres)\b/.test(name)
    return isEngine(known) && !isEngine(room)
  })
  expect([...new Set(naming.map(({ file }) => file))]).toEqual(['wiring/engines.ts'])
})

test('only main.ts touches the environment and the exit of the process', () => {
  const touching = files.filter(({ text }) => /process\.(env|exit)\b/.test(text))
  expect(touching.map(({ file }) => file)).toEqual(['main.ts'])
})

const TIMER =
  /(?<![\w.])(?:(?:set|clear)(?:Immediate|Interval|Timeout)|performance|hrtime)(?=[.(,)])/g

test('the service takes timers and clocks from timers.ts, where those of a test do not replace them', () => {
  const taking = files
    .filter(({ file }) => !/^(?:cli\/|main\.ts$|platform\/timers\.ts$)/.test(file))
    .filter(({ text, imports }) => {
      const [, taken = ''] =
        /^import \{([^}]*)\} from '[./]+(?:platform\/)?timers\.ts'$/m.exec(text) ?? []
      const code = text.replaceAll(/\/\*[\s\S]*?\*\/|^ *\/\/.*/gm, '')
      const names = code.match(TIMER) ?? []
      return (
        names.some(name => !taken.split(/[\s,]+/).includes(name)) ||
        imports.some(name => /^node:(?:timers|perf_hooks)/.test(name))
      )
    })
  expect(taking.map(({ file }) => file)).toEqual([])
})

test('no two source files share a name', () => {
  const names = files.map(({ file }) => file.slice(file.lastIndexOf('/') + 1))
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
})

test('the command line loads what a command needs once it is asked for', () => {
  const loaded = ['cli/command-line.ts']
  for (const file of loaded) {
    const text = files.find(found => found.file === file)?.text ?? ''
    const atOnce = text.matchAll(/^(?:import|export) (?!type )[^;']*? from '(\.[^']+)'/gm)
    const targets = targetsOf(
      file,
      Array.from(atOnce, ([, name = '']) => name),
    )
    loaded.push(...new Set(targets.filter(target => !loaded.includes(target))))
  }
  expect(loaded).toContain('cli/transfer/transfer-commands.ts')
  const rooms = ['service.ts', 'storage/', 'http/', 'limits/', 'users/']
  expect(loaded.filter(file => rooms.some(room => file.startsWith(room)))).toEqual([
    'users/transfer/user-import-store.ts',
  ])
})

const TESTS = fileURLToPath(new URL('.', import.meta.url))

test('tests that start processes are in the folder of a further suite', () => {
  const starting = filesIn(TESTS)
    .filter(
      file =>
        file.endsWith('.test.ts') && !/^(?:engines|process|pages|package|faults)\//.test(file),
    )
    .filter(file => {
      const imports = importsIn(readFileSync(join(TESTS, file), 'utf8'))
      return imports.some(name => /^node:child_process$|\/spawn-service\.ts$/.test(name))
    })
  expect(starting).toEqual([])
})
