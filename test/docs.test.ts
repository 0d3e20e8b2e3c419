import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { VARIABLES } from '../src/config/settings.ts'
import { ERRORS, type ErrorKind } from '../src/errors.ts'
import { RULE_KINDS } from '../src/limits/kinds/kinds.ts'
import { checkLimits } from '../src/limits/kinds/load-limits.ts'
import { listParameters } from '../src/users/list-query.ts'
import { codeBlocks, PROJECT, readProject } from './support/project.ts'

/** Every page of the project, by its path. */
const pages = [
  ...readdirSync(PROJECT),
  ...readdirSync(join(PROJECT, 'docs'), { encoding: 'utf8', recursive: true }).map(
    path => `docs/${path}`,
  ),
].filter(path => path.endsWith('.md'))

/** The text of a page without its code blocks. */
function proseOf(path: string): string {
  return readProject(path).replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '')
}

/** Where `[text](target)`, `src="target"` and `srcset="target"` of a page lead to within the project. */
function linksOf(page: string): { link: string; target: string; anchor: string }[] {
  const prose = proseOf(page).replaceAll(/`[^`\n]+`/g, 'code')
  const links = prose.matchAll(/\]\(([^)\s]+)\)|\bsrc(?:set)?="([^"]+)"/g)
  return Array.from(links, ([, text, source]) => text ?? source ?? '')
    .filter(link => !/^(?:https?|mailto):/.test(link))
    .map(link => {
      const { pathname, hash } = new URL(link, new URL(page, 'file:///'))
      return { link, target: pathname.slice(1), anchor: decodeURIComponent(hash.slice(1)) }
    })
}

/** The anchors that GitHub makes of the headings of a page. */
function anchorsOf(path: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of proseOf(path).matchAll(/^#+ (.+)$/gm)) {
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const anchor = text.replaceAll(/[^\p{L}\p{N}\p{M} _-]/gu, '').replaceAll(' ', '-')
    let number = 0
    while (anchors.has(number === 0 ? anchor : `${anchor}-${number}`)) number++
    anchors.add(number === 0 ? anchor : `${anchor}-${number}`)
  }
  return anchors
}

test('every link of README.md, docs/ and the other pages leads to a file and a heading that exist', () => {
  const links = pages.flatMap(page => linksOf(page).map(link => ({ page, ...link })))
  const broken = links.filter(({ target, anchor }) => {
    const isThere = existsSync(join(PROJECT, target))
    return !isThere || (anchor !== '' && !anchorsOf(target).has(anchor))
  })
  expect(broken).toEqual([])
  expect(links.length).toBeGreaterThan(100)
})

test('every link of a page of the package leads to what is in the package', () => {
  const packed: string[] = [
    'README.md',
    'LICENSE',
    ...JSON.parse(readProject('package.json')).files,
  ]
  const isPacked = (path: string) => packed.some(one => path === one || path.startsWith(`${one}/`))
  const links = pages
    .filter(isPacked)
    .flatMap(page => linksOf(page).map(link => ({ page, ...link })))
  expect(links.filter(({ target }) => !isPacked(target))).toEqual([])
})

test('every page of docs/ can be reached from README.md', () => {
  const reached = new Set(['README.md'])
  for (const page of reached) {
    if (!page.endsWith('.md')) continue
    for (const { target } of linksOf(page)) reached.add(target)
  }
  const lost = pages.filter(page => !reached.has(page) && !page.startsWith('docs/decisions/'))
  expect(lost).toEqual([])
})

test('docs/errors.md has a heading for each error code that clients see, with its status', () => {
  const sections = [...readProject('docs/errors.md').matchAll(/^## (\w+)\n\n(\d{3})\./gm)]
  const documented = Object.fromEntries(sections.map(([, code, status]) => [code, Number(status)]))
  const known = Object.entries<ErrorKind>(ERRORS)
    .filter(([, { shownAs }]) => shownAs === undefined)
    .map(([code, { status }]) => [code, status])
  expect(documented).toEqual(Object.fromEntries(known))
})

test('docs/operations/settings.md lists every setting with its default, in the order of src/config/settings.ts', () => {
  const rows = [
    ...readProject('docs/operations/settings.md').matchAll(/^\| ([A-Z_, ]+) \| ([^|]+) \|/gm),
  ]
  const listed = rows.flatMap(([, names = '', defaults = '']) => {
    const values = defaults.split(', ')
    return names.split(', ').map((name, index) => [name, values[index]])
  })
  const known = Object.entries(VARIABLES).map(([name, kind]) => [name, kind.default ?? 'unset'])
  expect(listed).toEqual(known)
})

test('each file that CONTRIBUTING.md names by its path is there, in src or in the project', () => {
  const named = readProject('CONTRIBUTING.md').matchAll(/`([\w./-]+\/[\w.-]+\.\w+)`/g)
  const isThere = (path: string) =>
    ['src', ''].some(folder => existsSync(join(PROJECT, folder, path)))
  expect(Array.from(named, ([, path = '']) => path).filter(path => !isThere(path))).toEqual([])
})

test('docs/lists.md has a row for each parameter of the list', () => {
  const [, table = ''] = readProject('docs/lists.md').split(/^\| parameter .*\n.*\n|\n\n## /m)
  const listed = table
    .split('\n')
    .flatMap(row => /^\| ([\w, ]+) \|/.exec(row)?.[1]?.split(', ') ?? [])
  expect(listed.sort()).toEqual(Object.keys(listParameters.shape).sort())
})

test('CHANGELOG.md begins with what is not released, then with the version of the package', () => {
  const headings = [...readProject('CHANGELOG.md').matchAll(/^## (.+)$/gm)].map(
    ([, heading]) => heading,
  )
  const { version } = JSON.parse(readProject('package.json'))
  expect(headings[0]).toBe('[Unreleased]')
  expect(headings[1]?.replace(/\d{4}-\d\d-\d\d$/, 'DATE')).toBe(`[${version}] - DATE`)
  expect(JSON.parse(readProject('package-lock.json')).packages['']).toHaveProperty(
    'version',
    version,
  )
})

test('README.md and limits.example.json show limits that are right', () => {
  const shown = [
    ...codeBlocks(readProject('README.md'), 'json'),
    readProject('limits.example.json'),
  ]
  const limits = shown.filter(text => /"(?:rateLimits|throttle|bans|blocklist)"/.test(text))
  expect(limits.length).toBeGreaterThan(0)
  for (const text of limits) expect(() => checkLimits(JSON.parse(text))).not.toThrow()
  const example = Object.keys(JSON.parse(readProject('limits.example.json')))
  expect(example.sort(), 'add a rule to limits.example.json').toEqual([...RULE_KINDS].sort())
})
