import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'

const SOURCE = fileURLToPath(new URL('../generated-client/', import.meta.url))

const { resolve } = createRequire(join(SOURCE, 'package.json'))

const OPTIONS = {
  target: 'es2022',
  module: 'nodenext',
  lib: ['es2023', 'dom'],
  types: [],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  rewriteRelativeImportExtensions: true,
  outDir: 'compiled',
}

const app = shareTestApp()

const folder = temporaryFolder(afterAll)

/** A project with the client that openapi-typescript makes from the document of the service. */
beforeAll(async () => {
  mkdirSync(join(folder, 'node_modules'))
  const types = resolve('openapi-fetch').replace(/dist.*$/, '')
  symlinkSync(types, join(folder, 'node_modules/openapi-fetch'))
  const generator = join(dirname(resolve('openapi-typescript/package.json')), 'bin/cli.js')
  await runNode(generator, `${app.url}/openapi.json`, '-o', 'interface.ts')
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
})

async function runNode(...args: string[]): Promise<{ code: number; stdout: string }> {
  const ran = promisify(execFile)(process.execPath, args, { cwd: folder })
  return ran.then(
    ({ stdout }) => ({ code: 0, stdout }),
    ({ code, stdout }) => ({ code, stdout }),
  )
}

/** The errors of the compiler for a program that uses the client, one line each. */
async function compile(program: string): Promise<{ code: number; errors: string[] }> {
  copyFileSync(join(SOURCE, program), join(folder, program))
  const config = { compilerOptions: OPTIONS, files: [program] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const { code, stdout } = await runNode(resolve('typescript/bin/tsc'), '--pretty', 'false')
  return { code, errors: stdout.split('\n').filter(line => /: error TS\d/.test(line)) }
}

describe('a TypeScript client generated from the document', () => {
  test('compiles strictly and drives the service', async () => {
    expect(await compile('program.ts')).toEqual({ code: 0, errors: [] })
    const compiled = pathToFileURL(join(folder, 'compiled/program.js'))
    const { useService } = await import(compiled.href)
    const taken = { email: ['has already been taken'] }
    expect(await useService(app.url)).toEqual({
      created: [201, 'Ann', false],
      repeated: [201, true, 'true'],
      many: [taken, taken],
      listed: ['Bea'],
      total: '2',
      page: [['Ann', 'Bea'], 1, false, 2],
      known: [304, undefined],
      changed: ['Anna', true],
      verified: [200, true],
      wrongLogin: [422, 'Wrong email or password'],
      lostUpdate: [412, 'The version is not one that If-Match or If-None-Match allows'],
      refusal: ['User', false, { name: ["can't be blank"], email: ['is invalid'] }],
      problem: ['Unprocessable Content', ['#/user/name', '#/user/email']],
      removed: [204, 404, true],
      ready: 'ok',
    })
  })

  test('does not compile with what the service refuses or never answers', async () => {
    const { code, errors } = await compile('mistakes.ts')
    expect(code).not.toBe(0)
    const wrong = errors.map(error => Number(/^mistakes\.ts\((\d+),/.exec(error)?.[1]))
    const lines = readFileSync(join(SOURCE, 'mistakes.ts'), 'utf8').split('\n')
    const marked = lines.flatMap((line, index) => (line.endsWith('// mistake') ? [index + 1] : []))
    expect([...new Set(wrong)]).toEqual(marked)
    expect(marked.length).toBeGreaterThan(10)
  })
})
