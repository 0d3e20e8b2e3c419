import { readdirSync, readFileSync } from 'node:fs'
import { createContext, runInContext } from 'node:vm'
import { expect, test } from 'vitest'
import { parseAst } from 'vitest/node'
import { ANY, ATTACKS, type Attack, MATCHERS } from './pattern-attacks.ts'

/** Every expression of the service must match any text in a time linear in its length. */

const SOURCE = new URL('../../src/', import.meta.url)

const sources = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts'))
  .map(file => readFileSync(new URL(file, SOURCE), 'utf8'))

/** So long that quadratic time takes minutes, and linear time a few milliseconds. */
const CHARS = 500_000

/** Less than a test may take, because a search blocks the thread and with it the time limit of the test. */
const WATCHDOG_MS = 150_000

/** The regular expression literals of a source, as written there. */
function literalsOf(source: string): string[] {
  const found: string[] = []
  JSON.stringify(parseAst(source, { lang: 'ts' }), (_, node) => {
    if (node?.regex !== undefined) found.push(node.raw)
    return typeof node === 'bigint' ? String(node) : node
  })
  return found
}

/** Whether part of an expression may match any number of times. Without that it cannot be slow. */
function isUnbounded(literal: string): boolean {
  const quantified = literal.replace(/\\.|\[(?:\\.|[^\]])*\]/g, 'x')
  return /[*+]|\{\d+,(?:\d{3,})?\}/.test(quantified)
}

/** The text whose match did not end in time, if there is one. The time limit of a context ends an expression too. */
function findSlow(
  match: (text: string) => unknown,
  attacks: readonly Attack[],
): Attack | undefined {
  let current: Attack | undefined
  const work = () => {
    for (const attack of attacks) {
      current = attack
      match(textOf(attack))
    }
    current = undefined
  }
  try {
    runInContext('work()', createContext({ work }), { timeout: WATCHDOG_MS })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
  }
  return current
}

function textOf(attack: Attack): string {
  const [start = '', repeated = '', end = ''] = attack.split('|')
  return start + repeated.repeat(Math.floor(CHARS / repeated.length)) + end
}

/** Matches a text as the service would: at its beginning, everywhere, or from each match to the next. */
function matchAll(expression: RegExp, text: string): void {
  if (expression.sticky) {
    expression.lastIndex = 0
    while (expression.lastIndex < text.length && expression.exec(text) !== null);
  } else if (expression.global) text.replace(expression, '')
  else expression.test(text)
}

function matcherOf(literal: string): (text: string) => void {
  const end = literal.lastIndexOf('/')
  const expression = new RegExp(literal.slice(1, end), literal.slice(end + 1))
  return text => matchAll(expression, text)
}

test('the table has every regular expression of src that repeats without an end, and no other one', () => {
  const found = new Set(sources.flatMap(literalsOf))
  expect(found.size).toBeGreaterThan(50)
  expect(Object.keys(ATTACKS).sort()).toEqual([...found].filter(isUnbounded).sort())
  const built = sources.join('\n').match(/new RegExp\(|z\.(?:regexes|iso)\.\w+/g)
  // Two of them compile texts of a limits file, and two the expressions of media types.
  const known = [...Array(4).fill('new RegExp('), 'z.iso.datetime', 'z.regexes.email']
  expect(built?.sort()).toEqual(known)
})

test.each([
  ...Object.entries(ATTACKS).map(([literal, own]) => [literal, matcherOf(literal), own] as const),
  ...MATCHERS,
])('no expression takes time quadratic in the length of its text: %s', (_name, match, own) => {
  expect(findSlow(match, [...ANY, ...own])).toBeUndefined()
})
