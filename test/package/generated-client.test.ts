import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  COMPILED,
  type GeneratedTypes,
  linesOf,
  markedLines,
  openGeneratedTypes,
} from '../support/generated-types.ts'
import { shareTestApp } from '../support/shared-app.ts'

const app = shareTestApp()

let types: GeneratedTypes

beforeAll(async () => {
  types = openGeneratedTypes(afterAll)
  await types.generate(`${app.url}/openapi.json`)
})

describe('a TypeScript client generated from the document', () => {
  test('compiles strictly and drives the service', async () => {
    expect(await types.compile('program.ts')).toEqual({ code: 0, errors: [] })
    const compiled = pathToFileURL(join(types.folder, COMPILED, 'program.js'))
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
    const { code, errors } = await types.compile('mistakes.ts')
    expect(code).not.toBe(0)
    const marked = markedLines(join(types.folder, 'mistakes.ts'))
    expect(linesOf(errors, 'mistakes.ts')).toEqual(marked)
    expect(marked.length).toBeGreaterThan(10)
  })
})
