import { readdirSync, readFileSync } from 'node:fs'
import { createContext, runInContext } from 'node:vm'
import { expect, test } from 'vitest'
import { parseAst } from 'vitest/node'
import { z } from 'zod'
import { parseMediaTypes } from '../../src/http/negotiation.ts'
import { findPassword } from '../../src/storage/postgres/client-config.ts'

/**
 * Texts that make some expression backtrack, each in three parts between bars: a beginning, a part that is repeated, and an end at
 * which a match fails.
 */
const ATTACKS: readonly string[] = [
  ...Array.from(' \ta0-."\'/\\%=,;:@[\n\x85é$', char => `|${char}|\n!`),
  ...['|a.|!', 'a|.a-|.', '|!~| ', '.|9|!', '|9|x', '|a| ', '|, with args beginning with|!'],
  ...['|,', '[|:|x', 'a|:1|:', '[|[|]', 'a|.:/-|*', '|:', '[|[|:', '|[]', '[|a]|:', 'a:|1|:'],
  ...['1| ', '1 |a|!', '|9|!', 'a|a:', '|://', 'http://|x@|/\n', 'http://|x|?\n', '|file:'],
  ...['file:|a', 'export| |!', 'export |a|!', 'a| |!', '| |!', 'Max open files| |x'],
  ...['|\nMax open files |x', '9| |x', '|a', 'https://|x|*', '|a|1', '"a"| |x', ' W/"a"| \t|"'],
  ...['|"a" ,|x', 'W/"|a|\n', '|{', '{|a|!', '|{a', '[|:|!', '[|a|]!', 'a:|1|!', '"|a|"x'],
  ...['"|\\\\|\n', '"|\\"|x', '"|a\\"', 'a:|1|x', '|/| ', '| \n\t', '|%\n', '|//a', '|/|\n'],
  ...['|imsu|x', '|a|', 'connection|a| ', '|upgrade| ', '0001_|a_|.', '0001_|.sql|x'],
  ...['2026-01-31T12:00:00.|0|!', '2026-01-31T12:00:00,|1|+0', '| ', '|0', '0: |0'],
  ...['0: 0:0000 |0', '|0: ', '.|0|!', '|.000', '|.0000', '$scrypt$ln=1,r=1,p=1$|A|!'],
  ...['$scrypt$ln=1,r=1,p=1$AAAAAAAAAAA$|/|$', '|é |!', '|a |!', 'a/b;| |x', 'a/b| |x'],
  ...['a/b|;|x', 'a/b|; \t|x', 'a/b|;a=b |x', 'a/b|;a="b" |"', 'a/b;a="|\\"|x', 'a/b;a="|\\\\'],
  ...['|a/b,|/', 'a/|b|/', '|;a', '|;a="', '|a=b', '|a|@', "|a'|@", 'a@|a.|!', 'a@|a-|.'],
  ...['a@|a.|1', 'a@a|-|.', 'a@a.|a|1', '|a@', '|a.a@|.', '|2024-02-29', '|2026-'],
  ...['$fbscrypt$v=1,n=|1|!', ':pbkdf2:sha1:|1|!', '{a}$|a| ', '3|$|a| ', '{noop}|a|\n'],
  ...['pbkdf2:sha1:|1|!', 'pbkdf2:sha1:1$s$|00|!', '$firescrypt$a$a$|a|$', '|$a', '{ssha}|A|!'],
]

/** So long that quadratic time takes minutes, and linear time a few milliseconds. */
const CHARS = 500_000

/** Less than a test may take, because a search blocks the thread and with it the time limit of the test. */
const WATCHDOG_MS = 150_000

const SOURCE = new URL('../../src/', import.meta.url)

const sources = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts'))
  .map(file => readFileSync(new URL(file, SOURCE), 'utf8'))

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

const literals = [...new Set(sources.flatMap(literalsOf))].filter(isUnbounded)

/** Matches a text as the service would: at its beginning, everywhere, or from each match to the next. */
function matcherOf(literal: string): (text: string) => void {
  const end = literal.lastIndexOf('/')
  const expression = new RegExp(literal.slice(1, end), literal.slice(end + 1))
  return text => {
    if (expression.sticky) {
      expression.lastIndex = 0
      while (expression.lastIndex < text.length && expression.exec(text) !== null);
    } else if (expression.global) text.replace(expression, '')
    else expression.test(text)
  }
}

/** The name of the match that did not end in time, if there is one. The time limit of a context ends an expression too. */
function findSlow(text: string): string | undefined {
  let current: string | undefined
  const work = () => {
    for (const [name, match] of matchers) {
      current = name
      match(text)
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

const matchers: readonly (readonly [name: string, match: (text: string) => unknown])[] = [
  ...literals.map(literal => [literal, matcherOf(literal)] as const),
  ['parseMediaTypes', parseMediaTypes],
  ['findPassword', text => findPassword(text, ['::1', '5432', 'db', 'user'])],
  ['z.iso.datetime', text => z.iso.datetime({ offset: true }).safeParse(text)],
]

test('the expressions that a literal does not show are those of the table', () => {
  expect(literals.length).toBeGreaterThan(40)
  const built = sources.join('\n').match(/new RegExp\(|z\.(?:regexes|iso)\.\w+/g)
  // Two of them compile texts of a limits file, two the expressions of media types, one the paths of routes, and one the lines of
  // a file of passwords.
  const known = [...Array(6).fill('new RegExp('), 'z.iso.datetime']
  expect(built?.sort()).toEqual(known)
})

test.each(ATTACKS)('no expression takes time quadratic in the length of its text: %j', attack => {
  const [start = '', repeated = '', end = ''] = attack.split('|')
  const text = start + repeated.repeat(Math.floor(CHARS / repeated.length)) + end
  expect(findSlow(text)).toBeUndefined()
})
