import { execFile } from 'node:child_process'
import { copyFileSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { bundleClient, CLIENT } from '../support/bundle-client.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { packPackage, readJson } from '../support/packed-package.ts'
import { firstBlock, PROJECT } from '../support/project.ts'
import { shareTestApp } from '../support/shared-app.ts'

/** The workspace with a generator of types, and the compiler that it needs. */
const GENERATOR = join(PROJECT, 'test/generated-client/')

const { resolve } = createRequire(join(GENERATOR, 'package.json'))

const COMPILER_OPTIONS = {
  target: 'es2022',
  module: 'nodenext',
  lib: ['es2023', 'dom', 'dom.asynciterable'],
  types: [],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
  noEmit: true,
}

// biome-ignore lint/suspicious/noExplicitAny: parts of the document are read and changed by their names.
type Document = any

/** The operations that the client uses. */
const OPERATIONS = [
  ['/users', 'get'],
  ['/users', 'post'],
  ['/users/changes', 'get'],
  ['/users/{id}', 'get'],
  ['/users/{id}', 'put'],
  ['/users/{id}', 'delete'],
  ['/password-verifications', 'post'],
] as const

/** Whose document has all reasons: those of keys and of limits too. */
const app = shareTestApp({
  keys: [{ name: 'app', scopes: ['users:read'] }],
  limits: { rateLimits: [{ to: 9, within: 1 }] },
})

describe('the types of the client', () => {
  const folder = temporaryFolder(afterAll)

  async function runNode(...args: string[]): Promise<string> {
    const ran = promisify(execFile)(process.execPath, args, { cwd: folder })
    return (await ran.catch((failed: { stdout: string }) => failed)).stdout
  }

  /** The errors of the compiler for a program of the workspace, one line each. */
  async function compile(program: string): Promise<string[]> {
    for (const source of [join(GENERATOR, program), CLIENT]) {
      copyFileSync(source, join(folder, basename(source)))
    }
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
    const config = { compilerOptions: COMPILER_OPTIONS, files: [program] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const stdout = await runNode(resolve('typescript/bin/tsc'), '--pretty', 'false')
    return stdout.split('\n').filter(line => /: error TS\d/.test(line))
  }

  test('are those of the document', async () => {
    const document = await (await fetch(`${app.url}/openapi.json`)).json()
    const reasons = reasonsOf(document).map(reason => `'${reason}'`)
    writeFileSync(join(folder, 'document.json'), JSON.stringify(document))
    writeFileSync(
      join(folder, 'reasons.ts'),
      `export type DocumentedReason = ${reasons.join(' | ')}\n`,
    )
    const generator = join(dirname(resolve('openapi-typescript/package.json')), 'bin/cli.js')
    await runNode(generator, 'document.json', '-o', 'interface.ts')
    expect(await compile('agreement.ts')).toEqual([])
  })

  test('refuse wrong uses', async () => {
    const program = 'client-mistakes.ts'
    const errors = await compile(program)
    const found = new Set(errors.map(error => Number(/\((\d+),/.exec(error)?.[1])))
    const lines = readFileSync(join(folder, program), 'utf8').split('\n')
    const marked = lines.flatMap((line, index) => (line.endsWith('// mistake') ? [index + 1] : []))
    expect([...found]).toEqual(marked)
    expect(marked.length).toBeGreaterThan(15)
  })
})

/** Of all errors that the operations of the client can answer. */
function reasonsOf({ paths, components }: Document): string[] {
  const responses = OPERATIONS.flatMap(([path, method]) =>
    Object.values(paths[path][method].responses),
  )
  const found = responses.flatMap((response: Document) => {
    const name = response.$ref?.split('/').at(-1)
    const { content } = name === undefined ? response : components.responses[name]
    const examples: Document[] = Object.values(content?.['application/json']?.examples ?? {})
    return examples.flatMap(({ value }) => value.reason ?? [])
  })
  return [...new Set(found)].sort()
}

test('the module is at most 8 kB when minified, and imports nothing', async () => {
  const { code, imports } = await bundleClient()
  expect(imports).toEqual([])
  expect(Buffer.byteLength(code)).toBeLessThanOrEqual(8000)
})

test('npm packs the module with its types, and the program of its README runs with it', async () => {
  const folder = temporaryFolder()
  const packed = packPackage(folder, 'client')
  const files = readdirSync(packed, { recursive: true, withFileTypes: true })
  expect(files.filter(file => file.isFile()).map(file => file.name)).toEqual(
    expect.arrayContaining(['create-client.js', 'create-client.d.ts', 'README.md', 'LICENSE']),
  )
  expect(files.some(file => file.name.endsWith('.map'))).toBe(false)
  const { dependencies, version } = readJson(join(packed, 'package.json'))
  expect([dependencies, version]).toEqual([
    undefined,
    readJson(join(PROJECT, 'package.json')).version,
  ])

  const cwd = join(folder, 'project')
  cpSync(packed, join(cwd, 'node_modules/user-records-client'), { recursive: true })
  const { url } = await openTestApp()
  const program = firstBlock(readFileSync(join(packed, 'README.md'), 'utf8'), 'js')
  writeFileSync(join(cwd, 'program.mjs'), program.replace('http://127.0.0.1:3000', url))
  const { stdout } = await promisify(execFile)(process.execPath, ['program.mjs'], { cwd })
  expect(stdout).toBe('1 Ann\n')
})
