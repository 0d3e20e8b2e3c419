import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type AtEnd, temporaryFolder } from './open-test-app.ts'

const SOURCE = fileURLToPath(new URL('../generated-client/', import.meta.url))

const { resolve } = createRequire(join(SOURCE, 'package.json'))

/** Where compiled programs are, within the folder. */
export const COMPILED = 'compiled'

const OPTIONS = {
  target: 'es2022',
  module: 'nodenext',
  lib: ['es2023', 'dom', 'dom.asynciterable'],
  types: [],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  rewriteRelativeImportExtensions: true,
  outDir: COMPILED,
}

/** A project of TypeScript in a folder, with types that openapi-typescript makes of a document. */
export interface GeneratedTypes {
  readonly folder: string
  /** Makes `interface.ts` of the document that is at an address or in a file. */
  generate(document: string): Promise<void>
  /** The errors of the compiler for a program of `test/generated-client` and further sources, one line each. */
  compile(
    program: string,
    ...sources: readonly string[]
  ): Promise<{ code: number; errors: string[] }>
}

export function openGeneratedTypes(atEnd: AtEnd): GeneratedTypes {
  const folder = temporaryFolder(atEnd)
  mkdirSync(join(folder, 'node_modules'))
  const types = resolve('openapi-fetch').replace(/dist.*$/, '')
  symlinkSync(types, join(folder, 'node_modules/openapi-fetch'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))

  async function runNode(...args: string[]): Promise<{ code: number; stdout: string }> {
    const ran = promisify(execFile)(process.execPath, args, { cwd: folder })
    return ran.then(
      ({ stdout }) => ({ code: 0, stdout }),
      ({ code, stdout }) => ({ code, stdout }),
    )
  }

  return {
    folder,
    async generate(document) {
      const generator = join(dirname(resolve('openapi-typescript/package.json')), 'bin/cli.js')
      await runNode(generator, document, '-o', 'interface.ts')
    },
    async compile(program, ...sources) {
      for (const source of [join(SOURCE, program), ...sources]) {
        copyFileSync(source, join(folder, basename(source)))
      }
      const config = { compilerOptions: OPTIONS, files: [program] }
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
      const { code, stdout } = await runNode(resolve('typescript/bin/tsc'), '--pretty', 'false')
      return { code, errors: stdout.split('\n').filter(line => /: error TS\d/.test(line)) }
    },
  }
}

/** The lines of a file in which the compiler found errors, each once. */
export function linesOf(errors: readonly string[], file: string): number[] {
  const inFile = errors.filter(error => error.startsWith(`${file}(`))
  return [...new Set(inFile.map(error => Number(/\((\d+),/.exec(error)?.[1])))]
}

/** The lines of a program that no client may be compiled with: those that end with `mistake`. */
export function markedLines(path: string): number[] {
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines.flatMap((line, index) => (line.endsWith('// mistake') ? [index + 1] : []))
}
