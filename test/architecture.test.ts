import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const SOURCE = fileURLToPath(new URL('../src', import.meta.url))

/** Which rooms each room may know. What is in a folder within a room is a room of its own. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  main: ['cli', 'cli/terminal', 'errors'],
  cli: [
    'cli/access',
    'cli/database',
    'cli/limits',
    'cli/serve',
    'cli/terminal',
    'cli/transfer',
    'config',
    'did-you-mean',
    'errors',
    'version',
  ],
  'cli/serve': [
    'cli/database',
    'cli/terminal',
    'config',
    'config-values',
    'did-you-mean',
    'errors',
    'http/server',
    'loopback',
    'mask-credentials',
    'ops',
    'ops/management',
    'version',
    'wiring',
  ],
  'cli/access': ['access', 'cli/terminal', 'config', 'errors', 'limits', 'limits/rules', 'wiring'],
  'cli/database': ['cli/terminal', 'config', 'storage', 'storage/copy', 'wiring'],
  'cli/limits': [
    'access',
    'cli/terminal',
    'config',
    'errors',
    'http/server',
    'limits',
    'limits/rules',
    'wiring',
  ],
  'cli/transfer': ['cli/terminal', 'config', 'errors', 'files', 'users/transfer', 'wiring'],
  library: ['errors', 'limits/rules', 'wiring'],
  wiring: [
    'access',
    'app',
    'config',
    'config-values',
    'did-you-mean',
    'errors',
    'http',
    'http/server',
    'limits',
    'limits/rules',
    'mask-credentials',
    'ops/management',
    'ops/metrics',
    'redis-location',
    'storage',
    'storage/copy',
    'storage/postgres',
    'storage/postgres/copy',
    'storage/postgres/maintenance',
    'storage/redis',
    'storage/sqlite',
    'storage/sqlite/copy',
    'storage/sqlite/maintenance',
    'users',
    'users/transfer',
    'version',
    'waiting',
  ],
  'storage/sqlite/maintenance': ['files', 'storage', 'storage/sqlite', 'users'],
  'storage/sqlite': [
    'access',
    'errors',
    'files',
    'limits',
    'native-package',
    'storage',
    'users',
    'users/transfer',
  ],
  'storage/sqlite/copy': ['storage', 'storage/copy', 'storage/sqlite'],
  'storage/postgres/copy': ['postgres-location', 'storage', 'storage/copy', 'storage/postgres'],
  'storage/copy': ['storage'],
  'storage/postgres/maintenance': ['postgres-location', 'storage', 'storage/postgres'],
  'storage/postgres': [
    'access',
    'errors',
    'limits',
    'postgres-location',
    'storage',
    'users',
    'users/transfer',
  ],
  'storage/redis': ['limits', 'redis-location', 'waiting'],
  storage: ['access', 'limits', 'metrics', 'users', 'users/transfer'],
  app: [
    'access',
    'config',
    'errors',
    'http',
    'http/document',
    'http/pages',
    'http/server',
    'interface',
    'limits',
    'ops',
    'users',
    'version',
  ],
  'users/transfer': ['checked-query', 'errors', 'instant', 'users'],
  'cli/terminal': ['config', 'did-you-mean', 'errors'],
  'http/pages': ['errors', 'http', 'http/document'],
  ops: ['config', 'http', 'http/document'],
  users: ['checked-query', 'errors', 'http', 'http/document', 'instant', 'native-package'],
  config: [
    'config-values',
    'did-you-mean',
    'dotenv',
    'errors',
    'mask-credentials',
    'postgres-parameters',
    'redis-url',
    'value-kind',
  ],
  'http/document': ['errors', 'http'],
  'http/server': ['errors', 'http', 'loopback'],
  limits: ['errors', 'http', 'limits/rules', 'waiting'],
  http: ['errors', 'metrics'],
  metrics: [],
  'ops/metrics': ['http', 'http/server', 'limits', 'metrics', 'storage', 'version'],
  'checked-query': ['errors'],
  'ops/management': [
    'checked-query',
    'errors',
    'http',
    'http/pages',
    'instant',
    'limits',
    'limits/rules',
    'metrics',
    'ops/metrics',
  ],
  'config-values': [
    'duration',
    'locate-postgres',
    'loopback',
    'postgres-location',
    'postgres-url',
    'value-kind',
  ],
  'locate-postgres': ['postgres-location', 'postgres-parameters', 'postgres-url', 'value-kind'],
  'mask-credentials': ['postgres-location'],
  'postgres-location': [],
  'postgres-parameters': ['postgres-location', 'postgres-url', 'value-kind'],
  'postgres-url': ['did-you-mean', 'postgres-location'],
  'redis-location': [],
  'redis-url': ['redis-location', 'value-kind'],
  'value-kind': [],
  'limits/rules': ['did-you-mean', 'duration', 'http'],
  waiting: [],
  access: ['errors', 'http'],
  'native-package': ['errors'],
  'did-you-mean': ['value-kind'],
  dotenv: [],
  duration: [],
  loopback: [],
  errors: [],
  files: [],
  instant: [],
  interface: [],
  version: [],
}

/** Files that may know a room which the rest of theirs may not. */
const ONLY: Readonly<Record<string, readonly string[]>> = {
  'ops -> config': ['ops/logger.ts'],
  'storage/sqlite -> access': ['storage/sqlite/sqlite-api-key-store.ts'],
  'storage/postgres -> access': ['storage/postgres/postgres-api-key-store.ts'],
  'storage/sqlite -> limits': ['storage/sqlite/sqlite-ban-store.ts'],
  'storage/sqlite -> users/transfer': [
    'storage/sqlite/sqlite-user-import-store.ts',
    'storage/sqlite/sqlite-dry-run-import-store.ts',
  ],
  'storage/postgres -> limits': [
    'storage/postgres/ban-statements.ts',
    'storage/postgres/postgres-ban-store.ts',
  ],
  'storage/postgres -> users/transfer': [
    'storage/postgres/import-checkpoints.ts',
    'storage/postgres/import-decisions.ts',
    'storage/postgres/import-statements.ts',
    'storage/postgres/postgres-trial-import-store.ts',
    'storage/postgres/postgres-user-import-store.ts',
  ],
  'users -> http': [
    'users/password-verification-operation.ts',
    'users/password-verification-routes.ts',
    'users/user-operations.ts',
    'users/user-routes.ts',
  ],
  'users -> http/document': [
    'users/password-verification-operation.ts',
    'users/user-operations.ts',
  ],
  'wiring -> storage/postgres': ['wiring/open-storage.ts'],
  'wiring -> storage/postgres/maintenance': ['wiring/create-database-tasks.ts'],
  'wiring -> storage/redis': ['wiring/open-counters.ts'],
  'wiring -> storage/sqlite': ['wiring/open-storage.ts'],
  'wiring -> storage/sqlite/copy': ['wiring/copy-databases.ts'],
  'wiring -> storage/postgres/copy': ['wiring/copy-databases.ts'],
  'wiring -> storage/sqlite/maintenance': ['wiring/create-database-tasks.ts'],
}

/** Files, or folders with all that is in them, that may import a package. */
const PACKAGE_DOORS: Readonly<Record<string, readonly string[]>> = {
  'better-sqlite3': ['storage/sqlite/sqlite-driver.ts'],
  express: [
    'access/key-checks.ts',
    'access/key-needs.ts',
    'http',
    'library.ts',
    'limits',
    'app.ts',
    'ops/management',
    'users/user-routes.ts',
    'wiring/open-app.ts',
    'wiring/open-records.ts',
  ],
  'express-rate-limit': ['limits'],
  '@redis/client': ['storage/redis'],
  pg: ['storage/postgres'],
  'prom-client': ['ops/metrics'],
  tldts: ['limits'],
  commander: ['cli'],
  'csv-stringify/sync': ['cli'],
  '@node-rs/argon2': ['users/passwords.ts', 'users/password-digest.ts'],
  '@node-rs/bcrypt': ['users/password-digest.ts'],
}

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts'))
  .map(file => file.split(sep).join('/'))

/** Its folder, however deep; a file at the top is a room of its own. */
function roomOf(file: string): string {
  return file.includes('/') ? dirname(file) : file.replace(/\.ts$/, '')
}

/** Of types too, and those that are loaded when they are needed. */
function importsIn(text: string): string[] {
  const expression =
    /^(?:import|export)\b[^'"]*?from '([^']+)'|^import '([^']+)'|\bimport\(\s*'([^']+)'/gm
  return [...text.matchAll(expression)].map(match => match[1] ?? match[2] ?? match[3] ?? '')
}

function importsOf(file: string): string[] {
  return importsIn(readFileSync(join(SOURCE, file), 'utf8'))
}

test('importsIn finds each kind of import', () => {
  const text = `
import 'a'
import { b } from 'b'
import {
  c,
} from './c.ts'
export type { D } from '../d.ts'
const e: typeof import('e') = await import('./f.ts')
const { g } = await import(
  './g.ts'
)`
  const found = ['a', 'b', './c.ts', '../d.ts', 'e', './f.ts', './g.ts']
  expect(importsIn(text)).toEqual(found)
})

test('the arrows between rooms point one way', () => {
  const floors: string[] = []
  const rooms = Object.keys(ALLOWED)
  while (floors.length < rooms.length) {
    const next = rooms.filter(
      room => !floors.includes(room) && ALLOWED[room]?.every(known => floors.includes(known)),
    )
    expect(next, `rooms in a circle, above ${floors.join(', ')}`).not.toEqual([])
    floors.push(...next)
  }
})

test('each row of the table is a room, and each room that it names is used by a file', () => {
  const rooms = new Set(files.map(roomOf))
  expect(Object.keys(ALLOWED).toSorted()).toEqual([...rooms].toSorted())
  const used = new Set(
    files.flatMap(file => roomsKnownTo(file).map(known => `${roomOf(file)} -> ${known}`)),
  )
  const allowed = Object.entries(ALLOWED).flatMap(([room, all]) =>
    all.map(known => `${room} -> ${known}`),
  )
  expect(allowed.toSorted()).toEqual([...used].toSorted())
  expect(Object.keys(ONLY).filter(arrow => !used.has(arrow))).toEqual([])
})

function targetsOf(file: string): string[] {
  return importsOf(file)
    .filter(name => name.startsWith('.'))
    .map(name => join(dirname(file), name).split(sep).join('/'))
}

function roomsKnownTo(file: string): string[] {
  return targetsOf(file)
    .map(roomOf)
    .filter(room => room !== roomOf(file))
}

describe.each(files)('src/%s', file => {
  const room = roomOf(file)

  test('imports only the rooms that its own may know', () => {
    const strangers = targetsOf(file).filter(target => {
      const known = roomOf(target)
      const isAllowed = known === room || ALLOWED[room]?.includes(known)
      const only = ONLY[`${room} -> ${known}`]
      return !isAllowed || (only !== undefined && !only.includes(file))
    })
    expect(strangers).toEqual([])
  })

  test('imports guarded packages only behind their door', () => {
    const strangers = importsOf(file).filter(name => {
      const doors = PACKAGE_DOORS[name]
      return doors !== undefined && !doors.some(door => `${file}/`.startsWith(`${door}/`))
    })
    expect(strangers).toEqual([])
  })

  test('leaves the environment and the exit of the process to the entries', () => {
    const text = readFileSync(join(SOURCE, file), 'utf8')
    if (file !== 'main.ts') expect(text).not.toMatch(/process\.(env|exit)\b/)
  })
})

test('no two source files share a name', () => {
  const names = files.map(file => file.slice(file.lastIndexOf('/') + 1))
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
})

test('the command line loads what a command needs once it is asked for', () => {
  const loaded = ['main.ts']
  for (const file of loaded) {
    const text = readFileSync(join(SOURCE, file), 'utf8')
    const targets = [...text.matchAll(/^(?:import|export) (?!type )[^;]*? from '(\.[^']+)'/gm)]
    for (const [, target = ''] of targets) {
      const path = join(dirname(file), target).split(sep).join('/')
      if (!loaded.includes(path)) loaded.push(path)
    }
  }
  expect(loaded).toContain('cli/transfer/transfer-commands.ts')
  const rooms = ['wiring/', 'storage/', 'http/', 'limits/', 'users/']
  expect(loaded.filter(file => rooms.some(room => file.startsWith(room)))).toEqual([
    'users/transfer/user-import-store.ts',
  ])
})
