import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AtEnd, temporaryFolder } from '../support/open-test-app.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

const TSC = join(PROJECT, 'node_modules/typescript/bin/tsc')

/** What the users of the package install themselves in the example of the README. */
const OF_EXAMPLE = ['express', 'supertest', '@types/express', '@types/supertest', '@types/node']

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const { packages: locked }: { packages: Readonly<Record<string, Locked>> } = readJson(
  join(PROJECT, 'package-lock.json'),
)

const ends: Parameters<AtEnd>[0][] = []
const atEnd: AtEnd = end => ends.push(end)

/** The package as `npm pack` makes it. */
let packed: string
/** A project that has installed it, with nothing else. */
let plain: string

beforeAll(() => {
  const folder = temporaryFolder(atEnd)
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder]
  execFileSync('npm', args, { cwd: PROJECT, stdio: ['ignore', 'ignore', 'pipe'] })
  const [tarball = ''] = readdirSync(folder)
  execFileSync('tar', ['-xzf', tarball], { cwd: folder })
  packed = join(folder, 'package')
  plain = projectWith()
})

afterAll(async () => {
  for (const end of ends.splice(0)) await end()
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
  const cwd = temporaryFolder(atEnd)
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

/** What the strictest TypeScript says of files that were written there. Without mistakes they are compiled into `built/`. */
function compile(cwd: string, files: Readonly<Record<string, string>>, types: string[] = []) {
  for (const [name, source] of Object.entries(files)) writeFileSync(join(cwd, name), source)
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    module: 'nodenext',
    target: 'es2023',
    types,
    noEmitOnError: true,
    outDir: 'built',
    allowJs: true,
    checkJs: true,
    // What is linked finds its own dependencies here, and not in this checkout, where more is installed.
    preserveSymlinks: true,
  }
  const config = { compilerOptions, files: Object.keys(files) }
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify(config))
  return spawnSync(process.execPath, [TSC], { cwd, encoding: 'utf8' }).stdout
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
  const text = readFileSync(join(PROJECT, page), 'utf8')
  return new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(text)?.[1] ?? ''
}

const rulesWith = (rule: string) =>
  `import { defineLimits, type LimitsFile } from 'user-records-service'
  const limits: LimitsFile = defineLimits({ blocklist: [${rule}] })
  export default limits`

const openWith = (settings: string) =>
  `import { createUserRecords } from 'user-records-service'
  export const records = await createUserRecords(${settings})`

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

/** Compiled together, because the compiler takes seconds to read all types. */
const RIGHT = {
  'rules.mts': rulesWith("{ match: request => request.get('user-agent') === undefined }"),
  'settings.mts': openWith(
    "{ TRUST_PROXY: ['loopback'], LIMITS: { blocklist: [{ ip: '203.0.113.9' }] } }",
  ),
  'cookbook.mjs': COOKBOOK,
  'program.cts': programOn('file:users.db'),
  'refused.cts': programOn('file:users.db?mode=rw'),
}

const MISTAKES: Readonly<Record<string, { readonly source: string; readonly error: RegExp }>> = {
  'rules.mts': {
    source: rulesWith('{ match: request => request.nowhere }'),
    error: /^\(2,.*error TS2339: Property 'nowhere' does not exist on type 'Request</,
  },
  'port.mts': { source: openWith('{ PORT: 3000 }'), error: /'PORT' does not exist/ },
  'throttle.mts': { source: openWith('{ LIMITS: { throttle: [{}] } }'), error: /TS2/ },
  'cookbook.mjs': { source: COOKBOOK.replace("'1 minute'", 'true'), error: /TS2322/ },
}

describe('for a strict project with what is installed along, the package', () => {
  let printed: string | undefined
  const compileRight = () => {
    printed ??= compile(plain, RIGHT)
    return printed
  }

  test('type-checks rules, settings by name and type, and the module of the cookbook', () => {
    expect(COOKBOOK).toContain('export default {')
    expect(compileRight()).toBe('')
  })

  test('type-checks each mistake in them', () => {
    const sources = Object.entries(MISTAKES).map(([name, { source }]) => [name, source])
    const lines = compile(projectWith(), Object.fromEntries(sources)).split('\n')
    for (const [name, { error }] of Object.entries(MISTAKES)) {
      const line = lines.find(found => found.startsWith(`${name}(`))
      expect(line?.slice(name.length), name).toMatch(error)
    }
  })

  test('can be required by CommonJS, reads neither the environment nor .env, prints nothing, and lets the process end by itself', () => {
    compileRight()
    expect(readFileSync(join(plain, 'built/program.cjs'), 'utf8')).toContain('require(')
    writeFileSync(join(plain, '.env'), 'PASSWORD_MIN_LENGTH=100\nBODY_LIMIT=1b\n')
    const environment = {
      PASSWORD_MIN_LENGTH: '100',
      DATABASE_URL: 'file:elsewhere.db',
      LOG_LEVEL: 'trace',
    }
    const finished = runBuilt(plain, 'program.cjs', environment)
    expect(finished).toEqual({ status: 0, stdout: '', stderr: '' })
    expect(readdirSync(plain)).toContain('users.db')
    expect(readdirSync(plain)).not.toContain('elsewhere.db')
    expect(runBuilt(plain, 'refused.cjs').status).toBe(1)
  })
})

test('the example of the README is right for a strict project with express and supertest, and runs', () => {
  const example = firstBlock('README.md', 'ts')
  expect(example).toContain('createUserRecords(')
  const wrong = example.replace('.expect(200, [])', '.expect(200, [{}])')
  const cwd = projectWith(OF_EXAMPLE)
  expect(compile(cwd, { 'example.mts': example, 'wrong.mts': wrong }, ['node'])).toBe('')
  expect(runBuilt(cwd, 'example.mjs')).toEqual({ status: 0, stdout: '', stderr: '' })
  expect(runBuilt(cwd, 'wrong.mjs').status).toBe(1)
})

test('the package names no file that it does not hold', () => {
  const { bin, exports } = readJson(join(packed, 'package.json'))
  const named = [...Object.values<string>(bin), ...Object.values<string>(exports['.'])]
  expect(named.filter(path => !existsSync(join(packed, path)))).toEqual([])

  const built = readdirSync(join(packed, 'dist'), { recursive: true, encoding: 'utf8' })
  expect(built).toContain('main.js')
  expect(built.filter(path => path.endsWith('.map'))).toEqual([])
  const mapped = built
    .filter(path => /\.(?:js|d\.ts)$/.test(path) && !path.startsWith('docs'))
    .filter(path => readFileSync(join(packed, 'dist', path), 'utf8').includes('sourceMappingURL'))
  expect(mapped).toEqual([])
})

test('the package holds the pages and every migration, but no tests and no sources', () => {
  const migrationsOf = (folder: string) =>
    readdirSync(join(folder, 'migrations'), { recursive: true }).sort()
  expect(migrationsOf(packed)).toEqual(migrationsOf(PROJECT))
  const files = readdirSync(packed, { recursive: true, encoding: 'utf8' })
  for (const page of ['docs', 'operator']) {
    expect(files).toContain(`dist/${page}/index.html`)
  }
  expect(files.filter(path => /(?<!\.d)\.ts$|^(?:src|test|bench)\b/.test(path))).toEqual([])
})
