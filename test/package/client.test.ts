import { execFile } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bundleClient, CLIENT } from '../support/bundle-client.ts'
import {
  type GeneratedTypes,
  linesOf,
  markedLines,
  openGeneratedTypes,
} from '../support/generated-types.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { firstBlock, packPackage, readJson } from '../support/packed-package.ts'
import { PROJECT } from '../support/project.ts'
import { shareTestApp } from '../support/shared-app.ts'

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
  let types: GeneratedTypes
  let document: Document

  beforeAll(async () => {
    types = openGeneratedTypes(afterAll)
    document = await (await fetch(`${app.url}/openapi.json`)).json()
  })

  /** The errors of the program that compares the types with those of a document. */
  async function compareWith(described: Document): Promise<string[]> {
    const reasons = reasonsOf(described).map(reason => `'${reason}'`)
    const path = join(types.folder, 'document.json')
    writeFileSync(path, JSON.stringify(described))
    writeFileSync(
      join(types.folder, 'reasons.ts'),
      `export type DocumentedReason = ${reasons.join(' | ')}\n`,
    )
    await types.generate(path)
    return (await types.compile('agreement.ts', CLIENT)).errors
  }

  test('are those of the document', async () => {
    expect(await compareWith(document)).toEqual([])
  })

  test('differ from those of a document with something more, or less', async () => {
    const more = structuredClone(document)
    const [perPage] = more.paths['/users'].get.parameters
    for (const path of ['/users', '/users/changes']) {
      more.paths[path].get.parameters.push({ ...perPage, name: 'more' })
    }
    for (const name of ['User', 'NewUser', 'UserChange']) {
      more.components.schemas[name].properties.more = { type: 'string' }
    }
    const refusal = more.components.responses.BadRequest_listUsers.content['application/json']
    refusal.examples.more = { value: { reason: 'more' } }

    const less = structuredClone(document)
    for (const path of ['/users', '/users/changes']) {
      less.paths[path].get.parameters = less.paths[path].get.parameters.slice(1)
    }
    for (const name of ['User', 'NewUser', 'UserChange']) {
      const { properties } = less.components.schemas[name]
      delete properties.name
    }
    for (const { content } of Object.values<Document>(less.components.responses)) {
      delete content['application/json']?.examples?.query_invalid
    }
    for (const changed of [more, less]) {
      expect(linesOf(await compareWith(changed), 'agreement.ts').length).toBeGreaterThanOrEqual(6)
    }
  })

  test('refuse wrong uses', async () => {
    const { errors } = await types.compile('client-mistakes.ts', CLIENT)
    const marked = markedLines(join(types.folder, 'client-mistakes.ts'))
    expect(linesOf(errors, 'client-mistakes.ts')).toEqual(marked)
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
