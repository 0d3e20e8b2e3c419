import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const SOURCE = fileURLToPath(new URL('../src', import.meta.url))

/** Which rooms of the house each room may know. A file at the top is a room of its own. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  main: ['cli', 'errors'],
  cli: ['config', 'errors', 'http', 'limits', 'storage', 'users', 'version', 'wiring'],
  wiring: ['app', 'config', 'errors', 'http', 'limits', 'storage', 'users'],
  app: ['config', 'errors', 'http', 'interface', 'limits', 'ops', 'users', 'version'],
  config: ['duration', 'errors'],
  users: ['errors', 'http', 'storage'],
  ops: ['errors', 'http'],
  limits: ['duration', 'errors', 'http'],
  http: ['errors'],
  storage: ['errors', 'limits'],
  duration: [],
  errors: [],
  interface: [],
  version: [],
}

/** Files that may know a room which the rest of theirs may not. */
const ONLY: Readonly<Record<string, readonly string[]>> = {
  'cli -> limits': [
    'cli/bans.ts',
    'cli/limits-trial.ts',
    'cli/limits.ts',
    'cli/rule-parts.ts',
    'cli/trial-report.ts',
  ],
  'cli -> storage': ['cli/export.ts', 'cli/import.ts', 'cli/output-file.ts'],
  'users -> storage': [
    'users/sqlite-user-repository.ts',
    'users/sqlite-user-import-store.ts',
    'users/sqlite-dry-run-import-store.ts',
  ],
  'users -> http': ['users/user-operations.ts', 'users/user-routes.ts'],
  'storage -> limits': ['storage/sqlite-ban-store.ts'],
}

/** Packages that stay behind one door. */
const PACKAGE_ROOMS: Readonly<Record<string, readonly string[]>> = {
  'better-sqlite3': [
    'storage',
    'wiring',
    'users/sqlite-statements.ts',
    'users/sqlite-user-repository.ts',
    'users/sqlite-user-update.ts',
    'users/sqlite-user-import-store.ts',
    'users/sqlite-dry-run-import-store.ts',
  ],
  express: ['http', 'limits', 'app', 'users/user-routes.ts'],
  'express-rate-limit': ['limits'],
  tldts: ['limits'],
  commander: ['cli'],
  'csv-parse': ['cli'],
  'csv-stringify/sync': ['cli'],
  '@node-rs/argon2': ['users/passwords.ts', 'users/password-digest.ts'],
  '@node-rs/bcrypt': ['users/password-digest.ts'],
}

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts'))
  .map(file => file.split(sep).join('/'))

function roomOf(file: string): string {
  return file.includes('/') ? file.slice(0, file.indexOf('/')) : file.replace(/\.ts$/, '')
}

function importsOf(file: string): string[] {
  const text = readFileSync(join(SOURCE, file), 'utf8')
  return [...text.matchAll(/^(?:import|export)\b[^'"]*?from '([^']+)'|^import '([^']+)'/gm)].map(
    match => match[1] ?? match[2] ?? '',
  )
}

describe.each(files)('src/%s', file => {
  const room = roomOf(file)
  const imports = importsOf(file)

  test('imports only the rooms that its own may know', () => {
    const strangers = imports
      .filter(name => name.startsWith('.'))
      .map(name =>
        relative(SOURCE, join(SOURCE, dirname(file), name))
          .split(sep)
          .join('/'),
      )
      .filter(target => roomOf(target) !== room)
      .filter(target => {
        const arrow = `${room} -> ${roomOf(target)}`
        const isAllowed = ALLOWED[room]?.includes(roomOf(target)) ?? false
        return !isAllowed || (ONLY[arrow] !== undefined && !ONLY[arrow].includes(file))
      })
    expect(strangers).toEqual([])
  })

  test('imports guarded packages only behind their door', () => {
    const strangers = imports.filter(name => {
      const rooms = PACKAGE_ROOMS[name]
      return rooms !== undefined && !rooms.includes(room) && !rooms.includes(file)
    })
    expect(strangers).toEqual([])
  })

  test('leaves the environment and the exit of the process to their one place', () => {
    const text = readFileSync(join(SOURCE, file), 'utf8')
    if (file !== 'main.ts') expect(text).not.toMatch(/process\.(env|exit)\b/)
  })
})

test('no two source files share a name', () => {
  const names = files.map(file => file.slice(file.lastIndexOf('/') + 1))
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
})
