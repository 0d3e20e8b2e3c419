import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { installPackages, packPackage, projectWith, readJson } from '../support/packed-package.ts'
import { firstBlock, PROJECT, readProject } from '../support/project.ts'

const TSC = join(PROJECT, 'node_modules/typescript/bin/tsc')

/** What the users of the package install themselves for the examples. */
const OF_EXAMPLE = ['express', 'supertest', '@types/express', '@types/supertest', '@types/node']

const folder = temporaryFolder(afterAll)

/** The package as `npm pack` makes it. */
let packed: string
/** A project that has installed it, with nothing else. */
let plain: string

beforeAll(async () => {
  packed = packPackage(folder)
  plain = projectWith(packed, folder)
  await installPackages(folder, COMPILER_5)
})

interface CompileOptions {
  readonly types?: readonly string[]
  readonly module?: string
  readonly moduleResolution?: string
  readonly compiler?: string
}

/** What the strictest TypeScript says of files that are written there, line by line. It compiles them into `built/`. */
function compile(
  cwd: string,
  files: Readonly<Record<string, string>>,
  { types = [], module = 'nodenext', moduleResolution, compiler = TSC }: CompileOptions = {},
) {
  for (const [name, source] of Object.entries(files)) writeFileSync(join(cwd, name), source)
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    target: 'es2023',
    ...{ module, moduleResolution, types },
    outDir: 'built',
    allowJs: true,
    checkJs: true,
    // What is linked finds its own dependencies here, and not in this checkout, where more is installed.
    preserveSymlinks: true,
  }
  const config = { compilerOptions, files: Object.keys(files) }
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify(config))
  const { stdout } = spawnSync(process.execPath, [compiler], { cwd, encoding: 'utf8' })
  return stdout.split('\n').filter(line => line !== '')
}

function runBuilt(cwd: string, name: string, env: NodeJS.ProcessEnv = process.env) {
  const args = [join('built', name)]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    ...{ cwd, env, encoding: 'utf8' },
  })
  return { status, stdout, stderr }
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

const COOKBOOK = firstBlock(readProject('docs/limits.md'), 'js')

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
  const example = firstBlock(readProject(page), language)
  expect(example).toContain('createUserRecords(')
  const wrong = example.replace('.expect(200, [])', '.expect(200, [{}])')
  const cwd = projectWith(packed, folder, OF_EXAMPLE)
  expect(compile(cwd, { 'example.mts': example, 'wrong.mts': wrong }, { types: ['node'] })).toEqual(
    [],
  )
  expect(runBuilt(cwd, 'example.mjs')).toEqual({ status: 0, stdout: '', stderr: '' })
  expect(runBuilt(cwd, 'wrong.mjs').status).toBe(1)
})

/** For ts-jest and others that need the compiler in JavaScript. */
const COMPILER_5 = 'typescript@5.9.3'

test.each([
  ['node16', 'node16', ['program.cts', 'program.mts']],
  ['esnext', 'bundler', ['program.mts']],
])(
  'module %s and moduleResolution %s compile a program that runs, in TypeScript 5 and 7',
  (module, moduleResolution, names) => {
    const wrong = SETTINGS.replace('TRUST_PROXY', 'PORT').replace('await ', '')
    const programs = Object.fromEntries(names.map(name => [name, programOn('file:users.db')]))
    const files = { ...programs, [`${names[0]}`.replace('program', 'wrong')]: wrong }
    for (const compiler of [TSC, join(folder, 'node_modules/typescript/bin/tsc')]) {
      const cwd = projectWith(packed, folder)
      expect(compile(cwd, files, { module, compiler, moduleResolution })).toEqual([
        expect.stringMatching(/^wrong\.c?m?ts.*'PORT' does not exist/),
      ])
      for (const name of names) {
        expect(runBuilt(cwd, name.replace('ts', 'js'))).toEqual({
          status: 0,
          stdout: '',
          stderr: '',
        })
        rmSync(join(cwd, 'users.db'))
      }
    }
  },
)

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
  const { stdout } = spawnSync(process.execPath, args, { cwd: plain, encoding: 'utf8' })
  expect(JSON.parse(stdout)).toEqual([201, 422, 503])
})

test('the package holds what it names, every migration, the pages and their licences, but no sources and no tests', () => {
  const paths = readdirSync(packed, { recursive: true, encoding: 'utf8' })
  const files = paths.map(path => path.replace(/\/[0-9a-f]{16}\//, '/'))
  const { bin, exports } = readJson(join(packed, 'package.json'))
  const { require: required, default: imported } = exports['.']
  const named = [bin, required, imported].flatMap(paths => Object.values<string>(paths))
  expect(named).toHaveLength(5)
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
