import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { PROJECT } from '../support/project.ts'
import { run } from '../support/spawn-service.ts'

const SQLITE = process.versions.node.startsWith('20.') ? 'better-sqlite3-node-20' : 'better-sqlite3'

/** Where either release of better-sqlite3 looks for its compiled part. */
const COMPILED = [
  'build/Release/better_sqlite3.node',
  `prebuilds/${process.platform}-${process.arch}.node`,
]

/** Runs a command of an installation, which serves on any port if there is none. */
function runIn(installation: string, { cwd = installation, env = {} } = {}) {
  const main = join(installation, 'dist', 'main.js')
  return run({ cwd, main, env: { PORT: '0', ...env } })
}

interface Broken {
  readonly broken: string
  readonly name?: string
  readonly breakIt: (installation: string, name: string) => void
  /** The installation within its folder. */
  readonly within?: string
  /** What mends it. */
  readonly command?: string
}

/** Where a project has the service that it installed. */
const INSTALLED = 'node_modules/user-records-service'

test.each<Broken>([
  { broken: 'SQLite is missing', breakIt: leaveOut },
  { broken: 'SQLite was built for another machine', breakIt: buildForOthers },
  { broken: 'Argon2 has no part for this machine', name: '@node-rs/argon2', breakIt: leaveAlone },
  {
    ...{ broken: 'SQLite is missing in a project', breakIt: leaveOut },
    ...{ within: INSTALLED, command: 'npm install --ignore-scripts=false' },
  },
  {
    ...{ broken: 'SQLite is not built in a project', breakIt: leaveAlone },
    ...{ within: INSTALLED, command: 'npm rebuild --ignore-scripts=false' },
  },
])(
  'serve says in one line that the package for $broken, and what mends it',
  async ({ name = SQLITE, breakIt, within = '', command = 'npm ci' }) => {
    const cwd = temporaryFolder()
    const installation = installWithout(name, join(cwd, within))
    breakIt(installation, name)
    const { code, stdout, stderr } = await runIn(installation, { cwd })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(
      /^\S+ is not installed, or not for Node v\d+\.\d+\.\d+ on \w+-\w+ \([^\n]+\); "npm [^\n]+\n$/,
    )
    expect(stderr.startsWith(`${name} `)).toBe(true)
    expect(stderr).toContain(`; "${command} `)
    expect(readdirSync(cwd)).not.toContain('data')
  },
)

test('serve on PostgreSQL does not need the package for SQLite', async () => {
  const installation = installWithout(SQLITE)
  // Nothing listens on this port.
  const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }
  const { code, stderr } = await runIn(installation, { env })
  expect(code).toBe(1)
  expect(stderr).toContain('no server listens there (ECONNREFUSED)')
  expect(stderr).not.toContain(SQLITE)
})

/** The built service in a folder of its own, with every package but one. */
function installWithout(left: string, folder = temporaryFolder()): string {
  for (const name of ['dist', 'migrations', 'package.json']) {
    cpSync(join(PROJECT, name), join(folder, name), { recursive: true })
  }
  const modules = join(PROJECT, 'node_modules')
  const link = (path: string) => {
    const target = join(folder, 'node_modules', path)
    mkdirSync(dirname(target), { recursive: true })
    symlinkSync(join(modules, path), target)
  }
  for (const name of readdirSync(modules)) {
    if (left.startsWith(`${name}/`)) {
      // A package's parts for each platform are named after it.
      const inScope = readdirSync(join(modules, name)).map(inner => `${name}/${inner}`)
      for (const path of inScope) if (!path.startsWith(left)) link(path)
    } else if (name !== left) link(name)
  }
  return folder
}

function leaveOut(): void {}

function buildForOthers(installation: string, name: string): void {
  leaveAlone(installation, name)
  for (const file of COMPILED) {
    const path = join(installation, 'node_modules', name, file)
    mkdirSync(dirname(path), { recursive: true })
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
