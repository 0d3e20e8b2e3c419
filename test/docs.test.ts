import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { VARIABLES } from '../src/config.ts'
import { ERROR_KINDS, type ErrorKind } from '../src/http/error-kinds.ts'
import { checkLimits } from '../src/limits/rules/checked-limits.ts'

function read(path: string): string {
  return readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
}

test('docs/errors.md has a heading for each error code that clients see, with its status', () => {
  const sections = [...read('docs/errors.md').matchAll(/^## (\w+)\n\n(\d{3})\./gm)]
  const documented = Object.fromEntries(sections.map(([, code, status]) => [code, Number(status)]))
  const known = Object.entries<ErrorKind>(ERROR_KINDS)
    .filter(([, { shownAs }]) => shownAs === undefined)
    .map(([code, { status }]) => [code, status])
  expect(documented).toEqual(Object.fromEntries(known))
})

test('README.md lists every setting with its default', () => {
  const rows = [...read('README.md').matchAll(/^\| ([A-Z_, ]+) \| ([^|]+) \|/gm)]
  const listed = rows.flatMap(([, names = '', defaults = '']) => {
    const values = defaults.split(', ')
    return names.split(', ').map((name, index) => [name, values[index]])
  })
  const known = Object.entries(VARIABLES).map(([name, { default: value }]) => [
    name,
    value ?? 'unset',
  ])
  expect(listed).toEqual(known)
})

test('README.md and limits.example.json show limits that are right', () => {
  const [, inReadme = ''] =
    /^## Limits[\s\S]*?```json\n([\s\S]*?)```/m.exec(read('README.md')) ?? []
  for (const text of [inReadme, read('limits.example.json')]) {
    expect(checkLimits(JSON.parse(text))).toHaveProperty('limits')
  }
})
