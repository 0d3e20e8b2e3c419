import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { VARIABLES } from '../src/config.ts'
import { ERROR_KINDS, type ErrorKind } from '../src/http/error-kinds.ts'
import { checkLimits } from '../src/limits/rules/checked-limits.ts'

const PROJECT = new URL('../', import.meta.url)

function read(path: string): string {
  return readFileSync(new URL(path, PROJECT), 'utf8')
}

/** Every page of the project, by its path. */
function allPages(): string[] {
  const isPage = (path: string) => path.endsWith('.md')
  const inDocs = readdirSync(new URL('docs', PROJECT), { encoding: 'utf8', recursive: true })
  return [...readdirSync(PROJECT), ...inDocs.map(path => `docs/${path}`)].filter(isPage)
}

/** The text of a page without its code blocks. */
function proseOf(path: string): string {
  return read(path).replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '')
}

/** Where `[text](target)`, `src="target"` and `srcset="target"` of a page lead to. */
function linksOf(path: string): string[] {
  const prose = proseOf(path).replaceAll(/`[^`\n]+`/g, 'code')
  const links = prose.matchAll(/\]\(([^)\s]+)\)|\bsrc(?:set)?="([^"]+)"/g)
  return Array.from(links, ([, target, source]) => target ?? source ?? '')
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
  const broken: string[] = []
  let checked = 0
  for (const page of allPages()) {
    for (const link of linksOf(page)) {
      if (/^(?:https?|mailto):/.test(link)) continue
      const { pathname, hash } = new URL(link, new URL(page, 'file:///'))
      const target = pathname.slice(1)
      const isThere = existsSync(new URL(target, PROJECT))
      const anchor = decodeURIComponent(hash.slice(1))
      if (!isThere || (anchor !== '' && !anchorsOf(target).has(anchor))) {
        broken.push(`${page}: ${link}`)
      }
      checked++
    }
  }
  expect(broken).toEqual([])
  expect(checked).toBeGreaterThan(100)
})

test('every page of docs/ can be reached from README.md', () => {
  const reached = new Set(['README.md'])
  for (const page of reached) {
    if (!page.endsWith('.md')) continue
    for (const link of linksOf(page)) {
      if (/^(?:https?|mailto):/.test(link)) continue
      const target = new URL(link, new URL(page, 'file:///')).pathname.slice(1)
      if (existsSync(new URL(target, PROJECT))) reached.add(target)
    }
  }
  expect(
    allPages().filter(page => !reached.has(page) && !page.startsWith('docs/decisions/')),
  ).toEqual([])
})

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

test('CHANGELOG.md begins with what is not released, then with the version of the package', () => {
  const headings = [...read('CHANGELOG.md').matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)
  const { version } = JSON.parse(read('package.json'))
  expect(headings[0]).toBe('[Unreleased]')
  expect(headings[1]).toMatch(/^\[[\d.]+\] - \d{4}-\d\d-\d\d$/)
  expect(headings[1]).toContain(`[${version}]`)
  expect(JSON.parse(read('package-lock.json')).packages['']).toHaveProperty('version', version)
})

test('README.md compares the CPU time of a GET as docs/performance.md does', () => {
  const [, table = ''] = /^### GET one\n\n([\s\S]*?)\n\n/m.exec(read('docs/performance.md')) ?? []
  const rows = table.split('\n').map(row => row.split('|').map(cell => cell.trim()))
  const column = rows[0]?.indexOf('CPU µs per request') ?? -1
  const cpu = new Map(rows.map(row => [row[1], Number(row[column])]))
  const times = (server: string) => {
    return ((cpu.get(server) ?? 0) / (cpu.get('this service') ?? 0)).toFixed(1)
  }
  expect(read('README.md')).toContain(
    `| 1 | not measured | ${times('Fastify with schemas')} with schemas only; ` +
      `${times('Fastify with helmet, ETag, rate limit, log')} with helmet, `,
  )
})

test('README.md and limits.example.json show limits that are right', () => {
  const [, inReadme = ''] =
    /^## Limits[\s\S]*?```json\n([\s\S]*?)```/m.exec(read('README.md')) ?? []
  for (const text of [inReadme, read('limits.example.json')]) {
    expect(checkLimits(JSON.parse(text))).toHaveProperty('limits')
  }
})
