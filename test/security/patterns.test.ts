import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { z } from 'zod'
import { regexLiterals } from '../support/regex-literals.ts'

/** Every expression of the service must read any text in a time that grows with its length and no faster. */

const SOURCE = new URL('../../src/', import.meta.url)

const sources = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts'))
  .map(file => readFileSync(new URL(file, SOURCE), 'utf8'))

/** Long enough that the square of it takes a minute and more, and few milliseconds if read once. */
const CHARS = 300_000

const WATCHDOG_MS = 100_000

/** A text to read: a beginning, what is repeated, and an end at which a match must fail. */
type Attack = readonly [start: string, repeated: string, end?: string]

/** Repeated to any expression, because its quantifiers may take them. */
const ANY: readonly Attack[] = [...' \ta0-."\'/\\%=,;:@[\n\x85é$'].map(char => ['', char, '\n!'])

const AFTER_NUMBER: readonly Attack[] = [
  ['1', ' '],
  ['1 ', 'a', '!'],
  ['', '9', '!'],
]
const SCHEME: readonly Attack[] = [
  ['a', 'a:'],
  ['', '://'],
  ['http://', 'x@', '/\n'],
  ['http://', 'x', '?\n'],
]

/** Beyond ANY, what each expression of `src` might stumble over. */
const ATTACKS: Readonly<Record<string, readonly Attack[]>> = {
  '/^(?!-)[\\w-]+(\\.[\\w-]+)*$/': [
    ['', 'a.', '!'],
    ['a', '.a-', '.'],
  ],
  '/\\.(?:json|m?js)$/': [
    ['', '.mjs', 'x'],
    ['', '.json', '.'],
  ],
  '/\\b(?=\\w*(?:pass|pwd|secret|token|key))(\\w+)=[^&\\s]*/gi': [
    ['', 'key'],
    ['', 'key='],
    ['', 'key-'],
    ['', 'pas'],
  ],
  '/^(0|[1-9]\\d{0,8})$/': [],
  '/^(\\d{1,15}) *([a-z]*)$/i': AFTER_NUMBER,
  '/^[a-z][a-z0-9+.-]*:\\/\\//i': SCHEME,
  '/^file:/i': [['', 'file:']],
  '/^\\d+$/': [],
  '/^\\d{1,3}$/': [],
  '/^https?:\\/\\/[^*]+$/': [['https://', 'x', '*']],
  '/^(\\d{1,12}) *([a-z]*)$/i': AFTER_NUMBER,
  '/s$/': [['', 's', 'x']],
  '/^(127\\.|::1$|::ffff:127\\.)/': [],
  '/[ \\t]*(?:(W\\/)?"([\\x21\\x23-\\x7e\\x80-\\xff]*)"[ \\t]*)?(?:,|$)/y': [
    ['"a"', ' ', 'x'],
    [' W/"a"', ' \t', '"'],
    ['', '"a" ,', 'x'],
    ['W/"', 'a', '\n'],
  ],
  '/\\{(\\w+)\\}/g': [
    ['', '{'],
    ['{', 'a', '!'],
    ['', '{a'],
  ],
  "/%(?![0-9A-Fa-f]{2})|[^\\w.~!$&'()*+,;=:@%/-]/g": [
    ['', '%2'],
    ['', '%'],
  ],
  "/^(?:\\[[\\da-f:.]+\\]|[\\w.~!$&'()*+,;=%-]*)(?::\\d*)?$/i": [
    ['[', ':', '!'],
    ['[', 'a', ']!'],
    ['a:', '1', '!'],
  ],
  '/^[\\x21\\x23-\\x7e][\\x21-\\x7e]{0,254}$/': [],
  '/^"((?:[\\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\["\\\\])+)"$/': [
    ['"', 'a', '"x'],
    ['"', '\\\\', '\n'],
    ['"', '\\"', 'x'],
    ['"', 'a\\"'],
  ],
  '/\\\\(["\\\\])/g': [],
  '/[\\x80-\\x9f]/g': [],
  '/^(?:0(?:\\.\\d{0,3})?|1(?:\\.0{0,3})?)$/': [
    ['0.', '0'],
    ['1.', '0'],
  ],
  '/^("?)utf-8\\1$/i': [
    ['"utf-8', '"'],
    ['', 'utf-8'],
  ],
  '/^[\\w.-]{1,128}$/': [],
  '/^[a-z][a-z0-9+.-]*:\\/\\/(?:[^/?#]*@)?([^/?#]*)/i': SCHEME,
  '/[^\\x20-\\x7e]/gu': [],
  '/["\\\\]/g': [],
  '/^\\ufeff/': [['', '\ufeff']],
  '/\\s+/g': [['', ' \n\t']],
  '/[gy]/g': [['', 'gy']],
  '/%.*/s': [['', '%\n']],
  '/\\/{2,}/g': [
    ['', '//a'],
    ['', '/', '\n'],
  ],
  '/\\.$/': [['', '.', 'x']],
  '/^[imsu]*$/': [['', 'imsu', 'x']],
  '/^(?:ip|domain|host|path|(?:header|query):.+)$/': [
    ['header:', 'a', '\n'],
    ['', 'header:', '\n'],
  ],
  '/^body:[^.]+(?:\\.[^.]+)*$/': [
    ['body:', 'a.', '.'],
    ['body:a', '.a', '..'],
    ['body:', 'a', '..'],
  ],
  '/[\\p{Cc}\\u2028\\u2029]/gu': [['', '\u2028']],
  '/^must be/': [],
  '/^[\\t\\x20-\\x7e\\x80-\\xff]*$/': [['', 'a', '\x7f']],
  "/^(?!(?:connection|keep-alive|trailer|transfer-encoding|upgrade|x-request-id)$)[\\w!#$%&'*+.^`|~-]+$/i":
    [
      ['connection', 'a', ' '],
      ['', 'upgrade', ' '],
    ],
  '/^[\\x21-\\x7e]+$/': [['', 'a', ' ']],
  '/^(\\d{4})_[a-z0-9_]+\\.sql$/': [
    ['0001_', 'a_', '.'],
    ['0001_', '.sql', 'x'],
  ],
  '/^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|NOMEM|PROTOCOL)/': [['', 'SQLITE_']],
  '/^[1-9]\\d{0,11}$/': [],
  '/^(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d)(:\\d\\d)?(?:[.,](\\d+))?(?:Z|([+ -]\\d\\d):?(\\d\\d)?)$/':
    [
      ['2026-01-31T12:00:00.', '0', '!'],
      ['2026-01-31T12:00,', '1', '+0'],
    ],
  '/\\.\\d{3}\\d*[1-9]/': [
    ['.', '0', '!'],
    ['', '.000'],
    ['', '.0000'],
  ],
  '/(\\.\\d{3})\\d+/': [
    ['', '.000'],
    ['.', '0', '!'],
  ],
  '/^[1-9]\\d{0,15}$/': [],
  '/\\p{Cc}/u': [],
  '/[\\u202a-\\u202e\\u2066-\\u2069]/': [],
}

const MEDIA_TYPE: readonly Attack[] = [
  ['a/b;', ' ', 'x'],
  ['a/b', ' ', 'x'],
  ['a/b', ';', 'x'],
  ['a/b', '; \t', 'x'],
  ['a/b', ';a=b ', 'x'],
  ['a/b', ';a="b" ', '"'],
  ['a/b;a="', '\\"', 'x'],
  ['a/b;a="', '\\\\'],
  ['', 'a/b,', '/'],
  ['a/', 'b', '/'],
  ['', ';a'],
  ['', ';a="'],
  ['', 'a=b'],
]

/** What the service uses of zod, by the name in its source. */
const OF_ZOD: Readonly<Record<string, readonly [expression: RegExp, attacks: readonly Attack[]]>> =
  {
    'z.regexes.email': [
      z.regexes.email,
      [
        ['', 'a.', '!'],
        ['', 'a', '@'],
        ['', "a'", '@'],
        ['a@', 'a.', '!'],
        ['a@', 'a-', '.'],
        ['a@', 'a.', '1'],
        ['a@a', '-', '.'],
        ['a@a.', 'a', '1'],
        ['', 'a@'],
        ['', 'a.a@', '.'],
      ],
    ],
    'z.iso.datetime': [
      z.iso.datetime({ offset: true })._zod.def.pattern as RegExp,
      [
        ['2026-01-31T12:00:00.', '0', '!'],
        ['2026-01-31T12:00:00.', '1', '+01'],
        ['', '2024-02-29'],
        ['', '2026-'],
      ],
    ],
  }

/** In a process of its own, which can be ended while it searches; prints what it begins with. */
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

test('every regular expression of src is in the table, and no other', () => {
  const found = new Set(sources.flatMap(regexLiterals))
  expect(Object.keys(ATTACKS).sort()).toEqual([...found].sort())
  expect(
    sources
      .join('\n')
      .match(/new RegExp\(|z\.(?:regexes|iso)\.\w+/g)
      ?.sort(),
  ).toEqual(
    // Two of them make what an operator wrote into a limits file, and two the expressions of media types.
    [...Array(4).fill('new RegExp('), ...Object.keys(OF_ZOD)].sort(),
  )
})

test('regexLiterals finds expressions wherever they may stand, and no division or comment', () => {
  const text = `#!/usr/bin/node
    const a = 1 / 2 / 3 // /no/g
    /* /no/ */ f(/a[/]\\/"/gi, '/no/', "//") ; x = \`/no/\${y.replace(/b\`/, "\`")}\`
    return /c/`
  expect(regexLiterals(text)).toEqual(['/a[/]\\/"/gi', '/b`/', '/c/'])
})

test('no expression takes time by the square of what it reads', {
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
