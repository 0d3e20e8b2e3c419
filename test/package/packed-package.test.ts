import { execFileSync, spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test, vi } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'

// The compiler starts several times in each test.
vi.setConfig({ testTimeout: 180_000 })

const PROJECT = fileURLToPath(new URL('..', import.meta.url))

const TSC = join(PROJECT, 'node_modules/typescript/bin/tsc')

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const { packages: locked }: { packages: Readonly<Record<string, Locked>> } = JSON.parse(
  readFileSync(join(PROJECT, 'package-lock.json'), 'utf8'),
)

/** What the users of the package install themselves in the example of the README. */
const OF_EXAMPLE = ['express', 'supertest', '@types/express', '@types/supertest', '@types/node']

/** Names in `node_modules` of what is installed along with packages: theirs, and what those need in turn. */
function installedAlong(roots: readonly string[]): Set<string> {
  const names = new Set<string>()
  const waiting = [...roots]
  for (const name of waiting) {
    const path = `node_modules/${name}`
    if (names.has(name) || locked[path] === undefined || !existsSync(join(PROJECT, path))) continue
    names.add(name)
    const { dependencies, optionalDependencies } = locked[path]
    waiting.push(...Object.keys({ ...dependencies, ...optionalDependencies }))
  }
  return names
}

/**
 * A project that has installed the package as `npm pack` makes it, and `others`, with what comes along with them. Links to
 * this checkout stand for what npm would fetch.
 */
function projectWith(others: readonly string[] = []): string {
  const cwd = temporaryFolder()
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', cwd]
  execFileSync('npm', args, { cwd: PROJECT, stdio: ['ignore', 'ignore', 'pipe'] })
  const [tarball = ''] = readdirSync(cwd)
  execFileSync('tar', ['-xzf', tarball], { cwd })
  const packed = join(cwd, 'node_modules', 'user-records-service')
  mkdirSync(dirname(packed))
  renameSync(join(cwd, 'package'), packed)
  const { dependencies, optionalDependencies } = readJson(join(packed, 'package.json'))
  const needed = Object.keys({ ...dependencies, ...optionalDependencies })
  for (const name of installedAlong([...needed, ...others])) {
    const path = join(cwd, 'node_modules', name)
    mkdirSync(dirname(path), { recursive: true })
    symlinkSync(join(PROJECT, 'node_modules', name), path, 'dir')
  }
  return cwd
}

function readJson(path: string) {
  return JSON.parse(readFileSync(path, 'utf8'))
}

/** What the strictest TypeScript says of a file that was written there. */
function compile(cwd: string, file: string, source: string, types: string[] = []): string {
  writeFileSync(join(cwd, file), source)
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
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }))
  return spawnSync(process.execPath, [TSC], { cwd, encoding: 'utf8' }).stdout
}

test('the package type-checks defineLimits for a strict project, with what is installed along', () => {
  const cwd = projectWith()
  const rules = (rule: string) =>
    `import { defineLimits, type LimitsFile } from 'user-records-service'
    const limits: LimitsFile = defineLimits({ blocklist: [${rule}] })
    export default limits`
  const right = "{ match: request => request.get('user-agent') === undefined }"
  expect(compile(cwd, 'right.mts', rules(right))).toBe('')
  expect(compile(cwd, 'wrong.mts', rules('{ match: request => request.nowhere }'))).toMatch(
    /^wrong\.mts\(2,.*error TS2339: Property 'nowhere' does not exist on type 'Request</,
  )
})

test('the example of the README is right for a strict project with express and supertest, and runs', () => {
  const readme = readFileSync(join(PROJECT, 'README.md'), 'utf8')
  const [, example = ''] = /^```ts\n([\s\S]*?)^```$/m.exec(readme) ?? []
  expect(example).toContain('createUserRecords(')
  const cwd = projectWith(OF_EXAMPLE)
  expect(compile(cwd, 'example.mts', example, ['node'])).toBe('')
  const { status, stdout, stderr } = spawnSync(process.execPath, [join('built', 'example.mjs')], {
    cwd,
    encoding: 'utf8',
  })
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' })

  const wrong = example.replace('.expect(200, [])', '.expect(200, [{}])')
  expect(compile(cwd, 'wrong.mts', wrong, ['node'])).toBe('')
  expect(spawnSync(process.execPath, [join('built', 'wrong.mjs')], { cwd }).status).toBe(1)
})

test('the package type-checks createUserRecords: settings by name and type', () => {
  const cwd = projectWith()
  const open = (settings: string) =>
    `import { createUserRecords } from 'user-records-service'
    export const records = await createUserRecords(${settings})`
  const right = "{ TRUST_PROXY: ['loopback'], LIMITS: { blocklist: [{ ip: '203.0.113.9' }] } }"
  expect(compile(cwd, 'right.mts', open(right))).toBe('')
  expect(compile(cwd, 'port.mts', open('{ PORT: 3000 }'))).toContain("'PORT' does not exist")
  expect(compile(cwd, 'rule.mts', open('{ LIMITS: { throttle: [{}] } }'))).toContain('TS2')
})

test('the module of the cookbook is checked by the types of the package', () => {
  const guide = readFileSync(join(PROJECT, 'docs/limits.md'), 'utf8')
  const [, module = ''] = /^```js\n([\s\S]*?)^```$/m.exec(guide) ?? []
  const cwd = projectWith()
  expect(module).toContain('export default {')
  expect(compile(cwd, 'limits.mjs', module)).toBe('')
  expect(compile(cwd, 'wrong.mjs', module.replace("'1 minute'", 'true'))).toContain('TS2322')
})

test('the package names no file that it does not hold', () => {
  const packed = join(projectWith(), 'node_modules', 'user-records-service')
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
  const packed = join(projectWith(), 'node_modules', 'user-records-service')
  const migrations = readdirSync(join(PROJECT, 'migrations'), { recursive: true }).sort()
  expect(readdirSync(join(packed, 'migrations'), { recursive: true }).sort()).toEqual(migrations)
  const files = readdirSync(packed, { recursive: true, encoding: 'utf8' })
  for (const page of ['docs', 'operator']) {
    expect(files).toContain(`dist/${page}/index.html`)
  }
  expect(files.filter(path => /(?<!\.d)\.ts$|^(?:src|test|bench)\b/.test(path))).toEqual([])
})

test('a program in CommonJS can require the package, with its types', () => {
  const cwd = projectWith()
  const source = `import { createUserRecords } from 'user-records-service'
    createUserRecords({ DATABASE_URL: ':memory:' }).then(records => records.close())`
  expect(compile(cwd, 'program.cts', source)).toBe('')
  expect(readFileSync(join(cwd, 'built/program.cjs'), 'utf8')).toContain('require(')
  const { status, stdout } = spawnSync(process.execPath, ['built/program.cjs'], {
    cwd,
    encoding: 'utf8',
  })
  expect({ status, stdout }).toEqual({ status: 0, stdout: '' })
  const wrong = source.replace(':memory:', 'file:users.db?mode=rw')
  expect(compile(cwd, 'wrong.cts', wrong)).toBe('')
  expect(spawnSync(process.execPath, ['built/wrong.cjs'], { cwd }).status).toBe(1)
})
