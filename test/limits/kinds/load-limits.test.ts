import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { OperatorError } from '../../../src/errors.ts'
import { loadLimits } from '../../../src/limits/kinds/load-limits.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const THROTTLE = { name: 'all', limit: 5, period: '1 minute' }

const LIMITS = JSON.stringify({ throttle: [THROTTLE] })

/** A new file of this name, in a folder of its own. */
function file(name: string, text: string | Buffer): string {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, text)
  return path
}

/** The mistakes for which a file is refused. */
async function mistakesOf(path: string): Promise<readonly string[]> {
  const error: unknown = await loadLimits(path).then(
    () => new Error('the file was accepted'),
    reason => reason,
  )
  if (!(error instanceof OperatorError)) throw error
  return error.problems
}

test.each([
  ['limits # 100% (new)?.json', LIMITS],
  ['Grüße.json', LIMITS],
  // Editors on Windows write a byte order mark.
  ['windows.json', `\uFEFF${LIMITS}`],
  ['limits.js', `export default ${LIMITS}`],
  ['awaiting.mjs', `export default await Promise.resolve(${LIMITS})`],
])('loadLimits reads %s', async (name, text) => {
  const limits = await loadLimits(file(name, text))
  expect(limits).toMatchObject({ throttle: [{ source: THROTTLE }], bans: [] })
})

test('loadLimits reads functions and RegExp of a module, and what it imports', async () => {
  const path = file(
    'limits.mjs',
    `import { limit } from './count.mjs'
    export default {
      rateLimits: [{ to: () => 5, within: () => 60, by: ['ip', () => 'x'], with: () => {} }],
      blocklist: [{ userAgent: [/sqlmap/i, 'nikto'], match: () => true }],
      throttle: [{ limit, period: 60 }],
    }`,
  )
  writeFileSync(join(path, '../count.mjs'), 'export const limit = 7')
  const any = expect.any(Function)
  expect(await loadLimits(path)).toMatchObject({
    rateLimits: [
      { name: 'rateLimits[0]', limit: any, windowMs: any, by: { find: any }, answer: any },
    ],
    blocklist: [{ source: { userAgent: [/sqlmap/i, 'nikto'], match: any } }],
    throttle: [{ limit: 7 }],
  })
})

const NO_UTF_8 = /^the file is not in UTF-8, but perhaps in UTF-16: save it as UTF-8$/

const NO_OBJECT = /^the file must hold an object of rules$/

test.each<[name: string, text: string | Buffer, mistake: RegExp]>([
  ['empty.json', '', /cannot be read \(Unexpected end of JSON input\)/],
  ['broken.json', '{\n "bans": [\n { "by": 5, }]}', /cannot be read \(line 3: .*JSON/],
  ['two values.json', '{}\n\n{}', /cannot be read \(line 3: .*JSON/],
  ['escape.json', '["a",\n "\\x"]', /cannot be read \(line 2: .*JSON/],
  ['no end.json', '{"bans":\n', /cannot be read \(Unexpected end of JSON input\)/],
  ['comma.json', '{\n "bans": [\n {},\n ]}', /cannot be read \(line 4: .*JSON/],
  ['two commas.json', '{ "a": [1,\n , 2] }', /cannot be read \(line 2: .*JSON/],
  ['comment.json', '{\n // none\n "bans": [] }', /cannot be read \(line 2: .*JSON/],
  ['quotes.json', `{ "bans": [\n{ "by": 'ip' }] }`, /cannot be read \(line 2: .*JSON/],
  ['utf-16.json', Buffer.from('\ufeff{}', 'utf16le'), NO_UTF_8],
  ['utf-16 without a mark.json', Buffer.from('{}', 'utf16le'), NO_UTF_8],
  ['latin-1.json', Buffer.from('{"é":1}', 'latin1'), NO_UTF_8],
  ['two lists.json', '{ "bans": [],\n"bans": [] }', /^line 2: "bans" is given twice$/],
  [
    'two patterns.json',
    '{ "blocklist": [{ "userAgent": { "regex": "a",\n"regex": "b" } }] }',
    /^line 2: blocklist\[0\]: userAgent\.regex is given twice$/,
  ],
  [
    'deep.json',
    `{ "bans": [],\n"throttle": [\n${'['.repeat(100_000)}${']'.repeat(100_000)}] }`,
    /^line 3: throttle\[0\]: must be an object$/,
  ],
  [
    'deep in a rule.json',
    `{ "blocklist": [{\n"header": ${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)} }] }`,
    /^line 2: blocklist\[0\]: header\.a must be a pattern /,
  ],
  ['deep and broken.json', `{ "bans":\n${'['.repeat(100_000)} }`, /cannot be read \(.*JSON/],
  ['throws lines.mjs', `throw new Error('boom\\nand more')`, /^the file .*\(boom and more\)$/],
  ['throws null.mjs', 'throw null', /cannot be read \(null\)$/],
  ['broken.mjs', 'export default {', /cannot be read \(/],
  ['named.mjs', 'export const throttle = []', NO_OBJECT],
  ['function.mjs', 'export default () => ({})', NO_OBJECT],
  ['promise.mjs', 'export default Promise.resolve({ throttle: [] })', NO_OBJECT],
  ['importing.mjs', `import 'a-package-that-nobody-has'`, /a-package-that-nobody-has/],
  [
    'two lines in a name.mjs',
    'export default { rateLimits: [{ name: "two\\nlines", to: 0, within: 60 }] }',
    /^rateLimits\[0\] "two\\nlines": to must be a whole number from 1, or a function$/,
  ],
])('loadLimits refuses %s in one line', async (name, text, mistake) => {
  const mistakes = await mistakesOf(file(name, text))
  expect(mistakes).toEqual([expect.stringMatching(mistake)])
  expect(mistakes[0]).not.toMatch(/[\r\n]/)
})

test('loadLimits refuses a module that waits forever after 10 seconds, and then reads it again', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const path = file('limits.mjs', 'await new Promise(() => {})\nexport default {}')
  const mistakes = mistakesOf(path)
  vi.advanceTimersByTime(10_000)
  expect(await mistakes).toEqual([
    'the file cannot be read (after 10 seconds it still awaits something)',
  ])
  writeFileSync(path, `export default ${LIMITS}`)
  expect(await loadLimits(path)).toMatchObject({ throttle: [{ source: THROTTLE }] })
})

test('loadLimits reports all mistakes, each with the line of its key or of the rule that lacks it', async () => {
  const text = `{
    "trottle": [],
    "track": [
      {
        "name": "a",
        "note": "}\\n{", "limit": 0,
        "on\\u006ci": 5
      },
      7,
      { "dryRun": true,
        "name": "a" }
    ],
    "bans": {}
  }`
  expect(await mistakesOf(file('limits.json', `\uFEFF${text}`))).toEqual([
    'line 2: unknown key "trottle", did you mean "throttle"?',
    'line 13: bans: must be a list of rules',
    'line 6: track[0] "a": limit must be a whole number from 1',
    'line 6: track[0] "a": unknown key "note"',
    expect.stringMatching(/^line 7: track\[0\] "a": unknown key "onli"/),
    'line 4: track[0] "a": period is missing: it must be given with limit',
    'line 9: track[1]: must be an object',
    'line 11: track[2] "a": name is given twice in track',
  ])
})
