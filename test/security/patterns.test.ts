import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { regexLiterals } from '../support/regex-literals.ts'
import { ANY, ATTACKS, type Attack, MEDIA_TYPE, OF_ZOD } from './pattern-attacks.ts'

/** Every expression of the service must match any text in a time linear in its length. */

const SOURCE = new URL('../../src/', import.meta.url)

const sources = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts'))
  .map(file => readFileSync(new URL(file, SOURCE), 'utf8'))

/** So long that quadratic time takes over a minute, and linear time a few milliseconds. */
const CHARS = 300_000

const WATCHDOG_MS = 100_000

/** Runs in another process, which can be killed while it searches. Prints each search before it begins. */
const READER = `
  let text = ''
  process.stdin.on('data', chunk => { text += chunk }).on('end', () => {
    for (const { source, flags, attacks } of JSON.parse(text)) {
      const expression = new RegExp(source, flags)
      for (const [start, repeated, end = ''] of attacks) {
        console.log(JSON.stringify([source, start, repeated, end]))
        const length = Math.floor(${CHARS} / repeated.length)
        const attack = start + repeated.repeat(length) + end
        if (flags.includes('y')) {
          expression.lastIndex = 0
          while (expression.lastIndex < attack.length && expression.exec(attack) !== null);
        } else if (flags.includes('g')) attack.replace(expression, '')
        else expression.test(attack)
      }
    }
    console.log('"read all"')
  })`

async function attack(
  subjects: readonly (readonly [RegExp, readonly Attack[]])[],
): Promise<unknown> {
  const work = subjects.map(([{ source, flags }, own]) => ({
    source,
    flags,
    attacks: [...ANY, ...own],
  }))
  const lines = await new Promise<string>(resolve => {
    const options = { timeout: WATCHDOG_MS, killSignal: 'SIGKILL', maxBuffer: 2 ** 26 } as const
    const child = execFile(process.execPath, ['-e', READER], options, (_error, stdout) =>
      resolve(stdout),
    )
    child.stdin?.end(JSON.stringify(work))
  })
  return JSON.parse(lines.trim().split('\n').at(-1) ?? '""')
}

function expressionOf(literal: string): RegExp {
  const end = literal.lastIndexOf('/')
  return new RegExp(literal.slice(1, end), literal.slice(end + 1))
}

test('every regular expression of src is in the table, and no other one', () => {
  const found = new Set(sources.flatMap(regexLiterals))
  expect(Object.keys(ATTACKS).sort()).toEqual([...found].sort())
  expect(
    sources
      .join('\n')
      .match(/new RegExp\(|z\.(?:regexes|iso)\.\w+/g)
      ?.sort(),
  ).toEqual(
    // Two of them compile texts of a limits file, and two the expressions of media types.
    [...Array(4).fill('new RegExp('), ...Object.keys(OF_ZOD)].sort(),
  )
})

test('regexLiterals finds expressions in every place, and no division or comment', () => {
  const text = `#!/usr/bin/node
    const a = 1 / 2 / 3 // /no/g
    /* /no/ */ f(/a[/]\\/"/gi, '/no/', "//") ; x = \`/no/\${y.replace(/b\`/, "\`")}\`
    return /c/`
  expect(regexLiterals(text)).toEqual(['/a[/]\\/"/gi', '/b`/', '/c/'])
})

test('no expression takes time quadratic in the length of its text', {
  timeout: 2 * WATCHDOG_MS,
}, async () => {
  vi.resetModules()
  const built: RegExp[] = []
  class RecordedRegExp extends RegExp {
    constructor(...args: ConstructorParameters<typeof RegExp>) {
      super(...args)
      built.push(this)
    }
  }
  vi.stubGlobal('RegExp', RecordedRegExp)
  await import('../../src/http/media-types.ts')
  vi.unstubAllGlobals()
  expect(built.map(({ flags }) => flags)).toEqual(['y', 'g'])

  const subjects = [
    ...Object.entries(ATTACKS).map(([literal, own]) => [expressionOf(literal), own] as const),
    ...built.map(expression => [expression, MEDIA_TYPE] as const),
    ...Object.values(OF_ZOD),
  ]
  expect(await attack(subjects)).toBe('read all')
})
