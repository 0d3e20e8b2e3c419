import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { LimitsRefused, loadLimits } from '../../../src/limits/rules/load-limits.ts'
import { loadSettings } from '../../../src/wiring/load-settings.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'

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
  if (!(error instanceof LimitsRefused)) throw error
  return error.mistakes
}

describe('loadLimits reads', () => {
  test.each([
    ['limits.json', LIMITS],
    ['limits # 100% (new)?.json', LIMITS],
    ['Grüße.json', LIMITS],
    // Editors on Windows write a byte order mark.
    ['windows.json', `\uFEFF${LIMITS}`],
    ['limits.mjs', `export default ${LIMITS}`],
    ['limits.js', `export default ${LIMITS}`],
    ['awaiting.mjs', `export default await Promise.resolve(${LIMITS})`],
  ])('%s', async (name, text) => {
    const limits = await loadLimits(file(name, text))
    expect(limits).toMatchObject({ throttle: [{ source: THROTTLE }], bans: [] })
  })

  test('functions and RegExp of a module', async () => {
    const limits = `{
      rateLimits: [{ to: () => 5, within: () => 60, by: ['ip', () => 'x'], with: () => {} }],
      blocklist: [{ userAgent: [/sqlmap/i, 'nikto'], match: () => true }],
    }`
    const any = expect.any(Function)
    expect(await loadLimits(file('limits.mjs', `export default ${limits}`))).toMatchObject({
      rateLimits: [{ name: 'rateLimits[0]', limit: any, windowMs: any, keyOf: any, answer: any }],
      blocklist: [{ source: { userAgent: [/sqlmap/i, 'nikto'], match: any } }],
    })
  })

  test('a module again each time', async () => {
    const path = file('limits.mjs', '')
    for (const limit of [1, 2, 3]) {
      writeFileSync(path, `export default { throttle: [{ limit: ${limit}, period: 60 }] }`)
      expect(await loadLimits(path)).toMatchObject({ throttle: [{ limit }] })
    }
  })

  test('the imports of a module, relative to it', async () => {
    const rules = 'export default { throttle: [{ limit, period: 60 }] }'
    const path = file('limits.mjs', `import { limit } from './count.mjs'\n${rules}`)
    writeFileSync(join(path, '../count.mjs'), 'export const limit = 7')
    expect(await loadLimits(path)).toMatchObject({ throttle: [{ limit: 7 }] })
  })
})

const NO_OBJECT = /^the file must hold an object of rules$/

test.each<[name: string, text: string | Buffer, mistake: RegExp]>([
  ['empty.json', '', /cannot be read \(line 1, column 1: .*JSON/],
  ['cut.json', '{"throttle": [', /cannot be read \(line 1, column 15: .*JSON/],
  [
    'broken in the middle.json',
    '{\n  "throttle": [\n    { "limit": 5, }\n  ]\n}\n',
    /cannot be read \(line 3, column 19: .*JSON/,
  ],
  ['commented.json', '// rules\n{}\n', /cannot be read \(.*JSON/],
  ['binary.json', Buffer.from([0xff, 0xfe, 0x7b]), /cannot be read \(/],
  ['list.json', '[]', NO_OBJECT],
  ['null.json', 'null', NO_OBJECT],
  ['two lists.json', '{ "bans": [],\n"bans": [] }', /^line 2: "bans" is given twice$/],
  [
    'two limits.json',
    '{ "throttle": [\n{ "limit": 1, "period": 60,\n"limit": 2 }] }',
    /^line 3: throttle\[0\]: limit is given twice$/,
  ],
  [
    'two patterns.json',
    '{ "blocklist": [{ "userAgent": { "regex": "a",\n"regex": "b" } }] }',
    /^line 2: blocklist\[0\]: userAgent\.regex is given twice$/,
  ],
  [
    'regex.json',
    '{ "blocklist": [{ "path": { "regex": "(a" } }] }',
    /^line 1: blocklist\[0\]: path must be a regular expression that compiles \(.*\(a/,
  ],
  [
    'number as name.json',
    '{ "blocklist": [{ "name": 5 }] }',
    /^line 1: blocklist\[0\]: name must be a name in quotes$/,
  ],
  ['throws.mjs', `throw new Error('boom')`, /^the file cannot be read \(boom\)$/],
  ['throws lines.mjs', `throw new Error('boom\\nand more')`, /\(boom and more\)$/],
  ['throws text.mjs', `throw 'boom'`, /cannot be read \(boom\)$/],
  ['throws null.mjs', 'throw null', /cannot be read \(null\)$/],
  ['throws undefined.mjs', 'throw undefined', /cannot be read \(undefined\)$/],
  ['broken.mjs', 'export default {', /cannot be read \(/],
  ['nothing.mjs', '', NO_OBJECT],
  ['named.mjs', 'export const throttle = []', NO_OBJECT],
  ['function.mjs', 'export default () => ({})', NO_OBJECT],
  ['promise.mjs', 'export default Promise.resolve({ throttle: [] })', NO_OBJECT],
  ['importing.mjs', `import 'a-package-that-nobody-has'`, /a-package-that-nobody-has/],
  ['importing a throw.mjs', 'import "data:text/javascript,throw TypeError(`boom`)"', /\(boom\)$/],
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

test.each(['limits.json', 'limits.mjs', 'limits.js'])(
  'loadLimits refuses %s that is not there or a folder',
  async name => {
    const path = join(temporaryFolder(), name)
    const missing = await mistakesOf(path)
    expect(missing).toEqual([expect.stringMatching(/cannot be read \((ENOENT\)$|.*NOT_FOUND)/)])
    mkdirSync(path)
    expect(await mistakesOf(path)).toEqual([
      expect.stringMatching(/cannot be read \(.*(DIR|FOUND)/),
    ])
  },
)

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
        "limit": 0,
        "onli": 5,
        "path": 5
      },
      7,
      { "name": "b" },
      { "dryRun": 1,
        "name": "b" }
    ],
    "bans": {}
  }`
  expect(await mistakesOf(file('limits.json', `\uFEFF${text}`))).toEqual([
    'line 2: unknown key "trottle", did you mean "throttle"?',
    'line 15: bans: must be a list of rules',
    expect.stringMatching(/^line 8: track\[0\] "a": path must be a pattern/),
    'line 6: track[0] "a": limit must be a whole number from 1',
    expect.stringMatching(/^line 7: track\[0\] "a": unknown key "onli"/),
    'line 4: track[0] "a": period is missing: it must be given with limit',
    'line 10: track[1]: must be an object',
    'line 12: track[3] "b": dryRun must be true or false',
    'line 13: track[3] "b": name is given twice in track',
  ])
})

describe('LIMITS_FILE', () => {
  test('with mistakes stops the start, beside other settings that are wrong', async () => {
    const path = file('limits.json', '{\n  "bans": 5, "track": [null]\n}')
    const settings = { PORT: 'http', LOG_LEVEL: 'loud', LIMITS_FILE: path }
    await expect(loadSettings(settings, {})).rejects.toMatchObject({
      problems: [
        expect.stringMatching(/^PORT was "http"; it may be /),
        expect.stringMatching(/^LOG_LEVEL was "loud"; it may be /),
        `LIMITS_FILE was "${path}": line 2: bans: must be a list of rules`,
        `LIMITS_FILE was "${path}": line 2: track[0]: must be an object`,
      ],
    })
  })

  test('unset means no limits', async () => {
    const { http } = await openTestApp()
    for (let index = 0; index < 20; index++) {
      const { status, headers } = await http.get('/users')
      expect([status, headers.ratelimit]).toEqual([200, undefined])
    }
  })
})
