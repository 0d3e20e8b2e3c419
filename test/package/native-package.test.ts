import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test, vi } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { run } from '../support/spawn-service.ts'

vi.setConfig({ testTimeout: 180_000 })

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

const SQLITE = process.versions.node.startsWith('20.') ? 'better-sqlite3-node-20' : 'better-sqlite3'

/** Where either release of better-sqlite3 looks for its compiled part. */
const COMPILED = [
  'build/Release/better_sqlite3.node',
  `prebuilds/${process.platform}-${process.arch}.node`,
]

test.each([
  { what: 'SQLite', name: SQLITE, broken: 'is missing', breakIt: leaveOut },
  {
    what: 'SQLite',
    name: SQLITE,
    broken: 'was built for another machine',
    breakIt: buildForOthers,
  },
  {
    what: 'Argon2',
    name: '@node-rs/argon2',
    broken: 'has no part for this machine',
    breakIt: leaveAlone,
  },
  { what: 'bcrypt', name: '@node-rs/bcrypt', broken: 'is missing', breakIt: leaveOut },
])(
  'serve says in one line that the package for $what $broken, and what mends it',
  async options => {
    const installation = installWithout(options.name)
    options.breakIt(installation, options.name)
    const { code, stdout, stderr } = await run({
      cwd: installation,
      main: mainOf(installation),
      env: { PORT: '0' },
    })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(
      /^\S+ is not installed, or not for Node v\d+\.\d+\.\d+ on \w+-\w+ \([^\n]+\); "npm ci [^\n]+\n$/,
    )
    expect(stderr.startsWith(`${options.name} `)).toBe(true)
    expect(readdirSync(installation)).not.toContain('data')
  },
)

test('the installation of the tests above serves when nothing is broken', async () => {
  const installation = installWithout(SQLITE)
  symlinkSync(join(PROJECT, 'node_modules', SQLITE), join(installation, 'node_modules', SQLITE))
  const { code, stdout } = await run({
    cwd: installation,
    main: mainOf(installation),
    args: ['migrate', '--status'],
  })
  expect(code).toBe(0)
  expect(stdout).toContain('0001_create_users')
})

test.each([{ args: ['migrate', '--status'] }, { args: ['serve'] }])(
  '$args.0 on PostgreSQL does not need the package for SQLite',
  async ({ args }) => {
    const installation = installWithout(SQLITE)
    // Nothing listens on this port.
    const { code, stderr } = await run({
      cwd: installation,
      main: mainOf(installation),
      args,
      env: { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none', PORT: '0' },
    })
    expect(code).toBe(1)
    expect(stderr).toContain('no server listens there (ECONNREFUSED)')
    expect(stderr).not.toContain(SQLITE)
  },
)

test.each([
  { what: 'missing', breakIt: leaveOut, command: 'npm install --ignore-scripts=false' },
  { what: 'not built', breakIt: leaveAlone, command: 'npm rebuild --ignore-scripts=false' },
])(
  'serve says how a project that installed the service gets a binary of SQLite that is $what',
  async ({ breakIt, command }) => {
    const cwd = temporaryFolder()
    const installation = join(cwd, 'node_modules', 'user-records-service')
    mkdirSync(installation, { recursive: true })
    installWithout(SQLITE, installation)
    breakIt(installation, SQLITE)
    const { code, stderr } = await run({ cwd, main: mainOf(installation), env: { PORT: '0' } })
    expect(code).toBe(1)
    expect(stderr.split('\n')).toEqual([expect.stringContaining(`; "${command} `), ''])
  },
)

/** The built service in a folder of its own, with every package but one. */
function installWithout(left: string, folder = temporaryFolder()): string {
  for (const name of ['dist', 'migrations', 'package.json']) {
    cpSync(join(PROJECT, name), join(folder, name), { recursive: true })
  }
  const modules = join(PROJECT, 'node_modules')
  mkdirSync(join(folder, 'node_modules'))
  for (const name of readdirSync(modules)) {
    const isScope = left.startsWith(`${name}/`)
    if (!isScope && name !== left)
      symlinkSync(join(modules, name), join(folder, 'node_modules', name))
    if (!isScope) continue
    mkdirSync(join(folder, 'node_modules', name))
    for (const inner of readdirSync(join(modules, name))) {
      const path = join(name, inner)
      // A package's parts for each platform are named after it.
      if (!path.startsWith(left))
        symlinkSync(join(modules, path), join(folder, 'node_modules', path))
    }
  }
  return folder
}

function mainOf(installation: string): string {
  return join(installation, 'dist', 'main.js')
}

function leaveOut(): void {}

function buildForOthers(installation: string, name: string): void {
  leaveAlone(installation, name)
  for (const file of COMPILED) {
    const path = join(installation, 'node_modules', name, file)
    mkdirSync(join(path, '..'), { recursive: true })
    writeFileSync(path, 'for another machine')
  }
}

/** The package as it is published, away from those that belong to it. */
function leaveAlone(installation: string, name: string): void {
  const from = join(PROJECT, 'node_modules', name)
  for (const part of ['package.json', 'lib', 'index.js', 'index.d.ts']) {
    if (!existsSync(join(from, part))) continue
    cpSync(join(from, part), join(installation, 'node_modules', name, part), { recursive: true })
  }
}
