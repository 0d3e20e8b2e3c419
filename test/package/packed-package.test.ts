import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { PROJECT, readProject } from '../support/project.ts'

const TSC = join(PROJECT, 'node_modules/typescript/bin/tsc')

/** What the users of the package install themselves for the examples. */
const OF_EXAMPLE = ['express', 'supertest', '@types/express', '@types/supertest', '@types/node']

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const { packages: locked }: { packages: Readonly<Record<string, Locked>> } = readJson(
  join(PROJECT, 'package-lock.json'),
)

const folder = temporaryFolder(afterAll)

/** The package as `npm pack` makes it. */
let packed: string
/** A project that has installed it, with nothing else. */
let plain: string

beforeAll(() => {
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder]
  execFileSync('npm', args, { cwd: PROJECT, stdio: ['ignore', 'ignore', 'pipe'] })
  const [tarball = ''] = readdirSync(folder)
  execFileSync('tar', ['-xzf', tarball], { cwd: folder })
  packed = join(folder, 'package')
  plain = projectWith()
})

/** Names in `node_modules` of what is installed along with packages: theirs, and what those need in turn. */
function installedAlong(roots: readonly string[]): Set<string> {
  const names = new Set<string>()
  const waiting = [...roots]
  for (const name of waiting) {
    const path = `node_modules/${name}`
    if (names.has(name) || locked[path] === undefined || !existsSync(join(PROJECT, path))) continue
    names.add(name)
    waiting.push(...needsOf(locked[path]))
  }
  return names
}

function needsOf({ dependencies, optionalDependencies }: Locked): string[] {
  return Object.keys({ ...dependencies, ...optionalDependencies })
}

/**
 * A project that has installed the package and `others`, with what comes along with them. Links to this checkout stand for what
 * npm would fetch.
 */
function projectWith(others: readonly string[] = []): string {
  const cwd = mkdtempSync(join(folder, 'project-'))
  const modules = join(cwd, 'node_modules')
  cpSync(packed, join(modules, 'user-records-service'), { recursive: true })
  const needed = needsOf(readJson(join(packed, 'package.json')))
  for (const name of installedAlong([...needed, ...others])) {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(PROJECT, 'node_modules', name), join(modules, name), 'dir')
  }
  return cwd
}

function readJson(path: string) {
  return JSON.parse(readFileSync(path, 'utf8'))
}

/** What the strictest TypeScript says of files that are written there, line by line. It compiles them into `built/`. */
function compile(cwd: string, files: Readonly<Record<string, string>>, types: string[] = []) {
  for (const [name, source] of Object.entries(files)) writeFileSync(join(cwd, name), source)
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    module: 'nodenext',
    target: 'es2023',
    types,
    outDir: 'built',
    allowJs: true,
    checkJs: true,
    // What is linked finds its own dependencies here, and not in this checkout, where more is installed.
    preserveSymlinks: true,
  }
  const config = { compilerOptions, files: Object.keys(files) }
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify(config))
  const { stdout } = spawnSync(process.execPath, [TSC], { cwd, encoding: 'utf8' })
  return stdout.split('\n').filter(line => line !== '')
}

function runBuilt(cwd: string, name: string, env: NodeJS.ProcessEnv = process.env) {
  const args = [join('built', name)]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    ...{ cwd, env, encoding: 'utf8' },
  })
  return { status, stdout, stderr }
}

/** The first block of code in a page. */
function firstBlock(page: string, language: string): string {
  const text = readProject(page)
  return new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(text)?.[1] ?? ''
}

/** A program in CommonJS that creates a user. */
const programOn = (databaseUrl: string) => `
  import { createServer } from 'node:http'
  import type { AddressInfo } from 'node:net'
  import { createUserRecords } from 'user-records-service'
  async function main() {
    const records = await createUserRecords({
      DATABASE_URL: '${databaseUrl}',
      LIMITS: { bans: [{ maxretry: 9, findtime: 60, bantime: 60 }], rateLimits: [{ to: 9, within: 60 }] },
    })
    const server = createServer(records.app).listen(0, '127.0.0.1')
    await new Promise(resolve => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    const user = { name: 'Ann', email: 'ann@example.com', password: 'correct horse' }
    const { status } = await fetch('http://127.0.0.1:' + port + '/users', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ user }),
    })
    if (status !== 201) throw new Error('it answered ' + status)
    server.close()
    server.closeAllConnections()
    await records.close()
  }
  main()`

const COOKBOOK = firstBlock('docs/limits.md', 'js')

const RULES = `import { defineLimits, type LimitsFile } from 'user-records-service'
  export const limits: LimitsFile = defineLimits({ blocklist: [{ match: request => request.path === '/' }] })`

const SETTINGS = `import { createUserRecords } from 'user-records-service'
  await createUserRecords({ TRUST_PROXY: ['loopback'], LIMITS: { throttle: [{ limit: 1, period: 60 }] } })`

/** Compiled together, because the compiler takes seconds to read all types. */
const PROGRAMS = {
  'rules.mts': RULES,
  'settings.mts': SETTINGS,
  'cookbook.mjs': COOKBOOK,
  'program.cts': programOn('file:users.db'),
  'refused.cts': programOn('file:users.db?mode=rw'),
  'wrong-rule.mts': RULES.replace('request.path', 'request.nowhere'),
  'wrong-name.mts': SETTINGS.replace('TRUST_PROXY', 'PORT'),
  'wrong-limit.mts': SETTINGS.replace('limit: 1, ', ''),
  'wrong-cookbook.mjs': COOKBOOK.replace("'1 minute'", 'true'),
}

test('a strict project with what is installed along compiles the package, and each mistake is found', () => {
  expect(compile(plain, PROGRAMS)).toEqual([
    expect.stringMatching(/^wrong-cookbook\.mjs.*'boolean' is not assignable/),
    expect.stringMatching(/^wrong-limit\.mts.*'limit' is missing/),
    expect.stringMatching(/^wrong-name\.mts.*'PORT' does not exist/),
    expect.stringMatching(/^wrong-rule\.mts.*'nowhere' does not exist on type 'Request</),
  ])
  expect(readFileSync(join(plain, 'built/program.cjs'), 'utf8')).toContain('require(')
  writeFileSync(join(plain, '.env'), 'PASSWORD_MIN_LENGTH=100\nBODY_LIMIT=1b\n')
  const env = { PASSWORD_MIN_LENGTH: '100', DATABASE_URL: 'file:elsewhere.db', LOG_LEVEL: 'trace' }
  // It takes nothing from the environment or .env, prints nothing, and lets the process end.
  expect(runBuilt(plain, 'program.cjs', env)).toEqual({ status: 0, stdout: '', stderr: '' })
  expect(readdirSync(plain).filter(name => name.endsWith('.db'))).toEqual(['users.db'])
  expect(runBuilt(plain, 'refused.cjs').status).toBe(1)
})

test.each([
  ['README.md', 'js'],
  ['docs/library.md', 'ts'],
])('the example of %s is right for a strict project, and runs', (page, language) => {
  const example = firstBlock(page, language)
  expect(example).toContain('createUserRecords(')
  const wrong = example.replace('.expect(200, [])', '.expect(200, [{}])')
  const cwd = projectWith(OF_EXAMPLE)
  expect(compile(cwd, { 'example.mts': example, 'wrong.mts': wrong }, ['node'])).toEqual([])
  expect(runBuilt(cwd, 'example.mjs')).toEqual({ status: 0, stdout: '', stderr: '' })
  expect(runBuilt(cwd, 'wrong.mjs').status).toBe(1)
})

/**
 * What Jest does to the second test file of a process: it loads the driver of SQLite anew, over a compiled part that keeps the
 * classes of the first.
 */
const SECOND_FILE = `
  import { createRequire } from 'node:module'
  import { once } from 'node:events'
  import { createServer } from 'node:http'
  import { join } from 'node:path'
  const require = createRequire(join(process.cwd(), 'node_modules/user-records-service/package.json'))
  const Driver = require(process.versions.node.startsWith('20.') ? 'better-sqlite3-node-20' : 'better-sqlite3')
  const other = new Driver('shared.db')
  for (const path of Object.keys(require.cache)) if (path.endsWith('.js')) delete require.cache[path]
  const { createUserRecords } = await import('user-records-service')
  const records = await createUserRecords({ DATABASE_URL: 'shared.db' })
  const server = createServer(records.app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  async function create() {
    const { status } = await fetch('http://127.0.0.1:' + server.address().port + '/users', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ user: { name: 'Ann', email: 'ann@example.com' } }),
    })
    return status
  }
  const statuses = [await create(), await create()]
  other.exec('BEGIN IMMEDIATE')
  statuses.push(await create())
  console.log(JSON.stringify(statuses))
  process.exit()`

test('a taken e-mail and a lock are known as such in the second test file of a process', () => {
  const args = ['--input-type=module', '--eval', SECOND_FILE]
  const stdout = execFileSync(process.execPath, args, { cwd: plain, encoding: 'utf8' })
  expect(JSON.parse(stdout)).toEqual([201, 422, 503])
})

test('the package holds what it names, every migration, the pages and their licences, but no sources and no tests', () => {
  const paths = readdirSync(packed, { recursive: true, encoding: 'utf8' })
  const files = paths.map(path => path.replace(/\/[0-9a-f]{16}\//, '/'))
  const { bin, exports } = readJson(join(packed, 'package.json'))
  const named = [...Object.values<string>(bin), ...Object.values<string>(exports['.'])]
  expect(named.filter(path => !existsSync(join(packed, path)))).toEqual([])
  const migrationsOf = (folder: string) =>
    readdirSync(join(folder, 'migrations'), { recursive: true }).sort()
  expect(migrationsOf(packed)).toEqual(migrationsOf(PROJECT))
  const ofDocs = ['index.html', 'home.html', 'LICENSE', 'NOTICE'].map(name => `docs/${name}`)
  const ofOperator = ['index.html', 'uPlot.LICENSE', 'preact.LICENSE']
  expect(files).toEqual(
    expect.arrayContaining(
      [...ofDocs, ...ofOperator.map(name => `operator/${name}`)].map(path => `dist/${path}`),
    ),
  )
  expect(files.filter(path => /(?<!\.d)\.ts$|\.map$|^(?:src|test|bench)\b/.test(path))).toEqual([])
})
