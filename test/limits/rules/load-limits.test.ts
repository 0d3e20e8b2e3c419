import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { LimitsRefused, loadLimits } from '../../../src/limits/rules/load-limits.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { run, spawnService } from '../../support/spawn-service.ts'
import { until } from '../../support/until.ts'

const PROJECT = fileURLToPath(new URL('../../../', import.meta.url))

const THROTTLE = { name: 'all', limit: 5, period: '1 minute' }

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
  const asModule = `export default { throttle: [${JSON.stringify(THROTTLE)}] }`

  test.each([
    { name: 'limits.json', text: JSON.stringify({ throttle: [THROTTLE] }, null, 2) },
    { name: 'limits.mjs', text: asModule },
    { name: 'limits.js', text: asModule },
    { name: 'limits # 100% (new)?.json', text: JSON.stringify({ throttle: [THROTTLE] }) },
    { name: 'Grüße.json', text: JSON.stringify({ throttle: [THROTTLE] }) },
    {
      name: 'awaiting.mjs',
      text: `const limit = await Promise.resolve(5)
        export default { throttle: [{ name: 'all', limit, period: '1 minute' }] }`,
    },
  ])('$name', async ({ name, text }) => {
    expect(await loadLimits(file(name, text))).toMatchObject({
      throttle: [{ source: THROTTLE }],
      bans: [],
    })
  })

  test('functions and RegExp of a module', async () => {
    const path = file(
      'limits.mjs',
      `export default {
        rateLimits: [{ to: () => 5, within: () => 60, by: ['ip', () => 'x'], with: () => {} }],
        blocklist: [{ userAgent: [/sqlmap/i, 'nikto'], match: () => true }],
      }`,
    )
    expect(await loadLimits(path)).toMatchObject({
      rateLimits: [
        {
          name: 'rateLimits[0]',
          limit: expect.any(Function),
          windowMs: expect.any(Function),
          keyOf: expect.any(Function),
          answer: expect.any(Function),
        },
      ],
      blocklist: [{ source: { userAgent: [/sqlmap/i, 'nikto'], match: expect.any(Function) } }],
    })
  })

  test('a module again each time', async () => {
    const path = file('limits.mjs', 'export default {}')
    for (const limit of [1, 2, 3]) {
      writeFileSync(path, `export default { throttle: [{ limit: ${limit}, period: 60 }] }`)
      expect(await loadLimits(path)).toMatchObject({ throttle: [{ limit }] })
    }
  })

  test('the imports of a module, relative to it', async () => {
    const path = file(
      'limits.mjs',
      `import { limit } from './count.mjs'
      export default { throttle: [{ limit, period: 60 }] }`,
    )
    writeFileSync(join(path, '../count.mjs'), 'export const limit = 7')
    expect(await loadLimits(path)).toMatchObject({ throttle: [{ limit: 7 }] })
  })
})

interface Wrong {
  readonly name: string
  readonly text: string | Buffer
  readonly mistake: RegExp
}

describe('loadLimits refuses in one line', () => {
  test.each<Wrong>([
    { name: 'empty.json', text: '', mistake: /cannot be read \(line 1, column 1: .*JSON/ },
    {
      name: 'cut.json',
      text: '{"throttle": [',
      mistake: /cannot be read \(line 1, column 15: .*JSON/,
    },
    {
      name: 'broken in the middle.json',
      text: '{\n  "throttle": [\n    { "limit": 5, }\n  ]\n}\n',
      mistake: /cannot be read \(line 3, column 19: .*JSON/,
    },
    { name: 'commented.json', text: '// rules\n{}\n', mistake: /cannot be read \(.*JSON/ },
    { name: 'binary.json', text: Buffer.from([0xff, 0xfe, 0x7b]), mistake: /cannot be read \(/ },
    { name: 'list.json', text: '[]', mistake: /must hold an object of rules/ },
    { name: 'null.json', text: 'null', mistake: /must hold an object of rules/ },
    { name: 'throws.mjs', text: `throw new Error('boom')`, mistake: /boom/ },
    {
      name: 'throws lines.mjs',
      text: `throw new Error('boom\\nand more')`,
      mistake: /boom/,
    },
    { name: 'throws text.mjs', text: `throw 'boom'`, mistake: /boom/ },
    { name: 'throws null.mjs', text: 'throw null', mistake: /cannot be read \(/ },
    { name: 'throws undefined.mjs', text: 'throw undefined', mistake: /cannot be read \(/ },
    { name: 'broken.mjs', text: 'export default {', mistake: /cannot be read \(/ },
    {
      name: 'waiting.mjs',
      text: 'await new Promise(() => {})\nexport default {}',
      mistake: /cannot be read \(after 10 seconds it still awaits something\)/,
    },
    {
      name: 'two lists.json',
      text: '{\n  "throttle": [],\n  "bans": [],\n  "throttle": []\n}',
      mistake: /^line 4: "throttle" is given twice$/,
    },
    {
      name: 'two limits.json',
      text: '{ "throttle": [\n{ "limit": 1, "period": 60,\n"limit": 2 }] }',
      mistake: /^line 3: throttle\[0\]: limit is given twice$/,
    },
    {
      name: 'two patterns.json',
      text: '{ "blocklist": [{ "userAgent": { "regex": "a",\n"regex": "b" } }] }',
      mistake: /^line 2: blocklist\[0\]: userAgent\.regex is given twice$/,
    },
    {
      name: 'regex.json',
      text: '{ "blocklist": [{ "path": { "regex": "(a" } }] }',
      mistake: /^line 1: blocklist\[0\]: path must be a regular expression that compiles \(.*\(a/,
    },
    {
      name: 'number as name.json',
      text: '{ "blocklist": [{ "name": 5 }] }',
      mistake: /^line 1: blocklist\[0\]: name must be a name in quotes$/,
    },
    { name: 'nothing.mjs', text: '', mistake: /must hold an object of rules/ },
    { name: 'named.mjs', text: 'export const throttle = []', mistake: /must hold an object/ },
    { name: 'function.mjs', text: 'export default () => ({})', mistake: /must hold an object/ },
    {
      name: 'promise.mjs',
      text: 'export default Promise.resolve({ throttle: [] })',
      mistake: /must hold an object/,
    },
    {
      name: 'importing.mjs',
      text: `import 'a-package-that-nobody-has'\nexport default {}`,
      mistake: /a-package-that-nobody-has/,
    },
  ])('$name', async ({ name, text, mistake }) => {
    const mistakes = await mistakesOf(file(name, text))
    expect(mistakes).toEqual([expect.stringMatching(mistake)])
    expect(mistakes[0]).not.toMatch(/[\r\n]/)
  })

  test.each(['limits.json', 'limits.mjs', 'limits.js'])('%s that does not exist', async name => {
    const mistakes = await mistakesOf(join(temporaryFolder(), name))
    expect(mistakes).toEqual([expect.stringMatching(/cannot be read \(.*(ENOENT|NOT_FOUND)/)])
  })

  test.each(['limits.json', 'limits.mjs'])('%s that is a folder', async name => {
    const path = join(temporaryFolder(), name)
    mkdirSync(path)
    expect(await mistakesOf(path)).toEqual([
      expect.stringMatching(/cannot be read \(.*(DIR|FOUND)/),
    ])
  })
})

test('loadLimits reads JSON that begins with a byte order mark, which editors on Windows write', async () => {
  const path = file('limits.json', `\uFEFF${JSON.stringify({ throttle: [THROTTLE] })}`)
  expect(await loadLimits(path)).toMatchObject({ throttle: [{ source: THROTTLE }] })
})

test('loadLimits reports all mistakes of a file', async () => {
  const text = JSON.stringify({ bans: [{ maxretry: 0 }], throtle: [] })
  expect(await mistakesOf(file('limits.json', text))).toEqual([
    'line 1: unknown key "throtle", did you mean "throttle"?',
    'line 1: bans[0]: maxretry must be a whole number from 1',
    expect.stringMatching(/^line 1: bans\[0\]: findtime is missing/),
    expect.stringMatching(/^line 1: bans\[0\]: bantime is missing/),
  ])
})

test('loadLimits reports for each mistake the line of its key, or of the rule that lacks it', async () => {
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
  test.each([
    { name: 'limits.json', text: '{"blocklist":[{"path":"/users"}]}' },
    { name: 'sub/limits.mjs', text: 'export default { blocklist: [{ path: /^.users$/ }] }' },
    { name: './limits.js', text: 'export default { blocklist: [{ match: () => true }] }' },
    { name: 'limits # 100% (new)?.mjs', text: 'export default { blocklist: [{}] }' },
  ])('$name is relative to the working directory', async ({ name, text }) => {
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, 'sub'))
    writeFileSync(join(cwd, name), text)
    const service = await spawnService({ cwd, env: { LIMITS_FILE: name } })
    expect((await fetch(`${service.url}/users`)).status).toBe(403)
    expect((await fetch(`${service.url}/livez`)).status).toBe(200)
  })

  test('may stand in .env', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'limits.json'), '{"blocklist":[{}]}')
    writeFileSync(join(cwd, '.env'), 'LIMITS_FILE=limits.json\n')
    const service = await spawnService({ cwd })
    expect((await fetch(`${service.url}/users`)).status).toBe(403)
  })

  test('unset means no limits', async () => {
    const { http } = await openTestApp()
    for (let index = 0; index < 20; index++) {
      const { status, headers } = await http.get('/users')
      expect([status, headers.ratelimit]).toEqual([200, undefined])
    }
  })

  interface Start {
    readonly why: string
    readonly name: string
    readonly text?: string
    /** Other files, by their path. */
    readonly besides?: Readonly<Record<string, string>>
    readonly env?: Readonly<Record<string, string>>
    readonly lines: readonly (string | RegExp)[]
  }

  test.each<Start>([
    {
      why: 'two rules are wrong',
      name: 'limits.json',
      text: JSON.stringify({
        trottle: [],
        throttle: [{ name: 'posts', limit: 10, period: '1 fortnight', onli: 5 }],
        track: [{ limit: 6 }],
      }),
      lines: [
        'LIMITS_FILE was "limits.json": line 1: unknown key "trottle", did you mean "throttle"?',
        /^LIMITS_FILE was "limits\.json": line 1: throttle\[0\] "posts": period must be a time such as "1 day"/,
        /^LIMITS_FILE was "limits\.json": line 1: throttle\[0\] "posts": unknown key "onli"/,
        /^LIMITS_FILE was "limits\.json": line 1: track\[0\]: period is missing: it must be given with limit/,
      ],
    },
    {
      why: 'a module has a wrong rule',
      name: './limits.mjs',
      text: 'export default { rateLimits: [{ name: "two\\nlines", to: 0, within: 60 }] }',
      lines: [
        'LIMITS_FILE was "./limits.mjs": rateLimits[0] "two\\nlines": to must be a whole number from 1, or a function',
      ],
    },
    {
      why: 'rules are null',
      name: 'limits.json',
      text: '{"rateLimits":[null],"track":[null],"bans":null}',
      lines: [
        'LIMITS_FILE was "limits.json": line 1: rateLimits[0]: must be an object',
        'LIMITS_FILE was "limits.json": line 1: track[0]: must be an object',
        'LIMITS_FILE was "limits.json": line 1: bans: must be a list of rules',
      ],
    },
    {
      why: 'it is no JSON',
      name: 'limits.json',
      text: '{\n  "throttle": [\n    { "limit": 5, }\n  ]\n}\n',
      lines: [
        /^LIMITS_FILE was "limits\.json": the file cannot be read \(line 3, column 19: .*JSON.*\)$/,
      ],
    },
    {
      why: 'it is not there',
      name: 'nowhere/limits.json',
      lines: [/^LIMITS_FILE was "nowhere\/limits\.json": the file cannot be read \(ENOENT\)$/],
    },
    {
      why: 'a module throws',
      name: 'limits.mjs',
      text: 'throw new Error("boom")',
      lines: ['LIMITS_FILE was "limits.mjs": the file cannot be read (boom)'],
    },
    {
      why: 'what a module imports throws',
      name: 'limits.mjs',
      text: 'import "./part.mjs"',
      besides: { 'part.mjs': 'throw new TypeError("boom")' },
      lines: ['LIMITS_FILE was "limits.mjs": the file cannot be read (boom)'],
    },
    {
      why: 'a module imports what is not there',
      name: 'limits.mjs',
      text: 'import { nothing } from "./part.mjs"',
      besides: { 'part.mjs': '' },
      lines: [/^LIMITS_FILE was "limits\.mjs": the file cannot be read \(.*nothing.*\)$/],
    },
    ...['limits.mjs', './limits.js'].map(name => ({
      why: 'a module is no JavaScript',
      name,
      text: 'import fs from "node:fs"\nexport default {\n  bans: }\n',
      lines: [/^LIMITS_FILE was ".*": the file cannot be read \(.*'}'.*\)$/],
    })),
    {
      why: 'other settings are wrong too',
      name: 'limits.json',
      text: '{\n  "bans": 5\n}',
      env: { PORT: 'http', LOG_LEVEL: 'loud' },
      lines: [
        /^PORT was "http"; it may be /,
        /^LOG_LEVEL was "loud"; it may be /,
        'LIMITS_FILE was "limits.json": line 2: bans: must be a list of rules',
      ],
    },
    {
      why: 'a module throws null',
      name: 'limits.mjs',
      text: 'throw null',
      lines: [/^LIMITS_FILE was "limits\.mjs": the file cannot be read/],
    },
    {
      why: 'it is of no kind that is known',
      name: 'limits.yaml',
      text: '{}',
      lines: [/^LIMITS_FILE was "limits\.yaml"; it may be the path of a \.json file/],
    },
  ])('stops the start with one line for each mistake when $why', async start => {
    const { name, text, besides = {}, env = {}, lines } = start
    const cwd = temporaryFolder()
    if (text !== undefined) writeFileSync(join(cwd, name), text)
    for (const [path, content] of Object.entries(besides)) writeFileSync(join(cwd, path), content)
    const settings = { LIMITS_FILE: name, PORT: '0', ...env }
    const { code, stdout, stderr } = await run({ cwd, env: settings })
    const printed = stderr.split('\n')
    expect({ code, stdout, end: printed.pop() }).toEqual({ code: 1, stdout: '', end: '' })
    expect(printed).toHaveLength(lines.length)
    for (const line of lines) {
      expect(printed).toContainEqual(typeof line === 'string' ? line : expect.stringMatching(line))
    }
  })
})

describe('the package', () => {
  test('exports defineLimits to a module of limits', async () => {
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, 'node_modules'))
    symlinkSync(PROJECT, join(cwd, 'node_modules', 'user-records-service'), 'dir')
    writeFileSync(
      join(cwd, 'limits.mjs'),
      `import { defineLimits } from 'user-records-service'
      export default defineLimits({ blocklist: [{ match: ({ method }) => method === 'GET' }] })`,
    )
    const service = await spawnService({ cwd, env: { LIMITS_FILE: 'limits.mjs' } })
    expect((await fetch(`${service.url}/users`)).status).toBe(403)
    expect((await fetch(`${service.url}/users`, { method: 'OPTIONS' })).status).toBe(204)
  })

  test('contains defineLimits and its types in the package file', async () => {
    const resolved = createRequire(join(PROJECT, 'package.json')).resolve('user-records-service')
    expect(resolved).toBe(join(PROJECT, 'dist/library.js'))
    expect(Object.keys(await import(resolved))).toContain('defineLimits')
    const { exports } = createRequire(import.meta.url)('../../../package.json')
    expect(exports['.']).toEqual({
      types: './dist/library.d.ts',
      default: './dist/library.js',
    })
  })
})

test('a module that waits forever does not block later readings of the rules', async () => {
  const path = file('limits.mjs', 'export default {}')
  const cwd = dirname(path)
  const service = await spawnService({ cwd, env: { LIMITS_FILE: path } })
  writeFileSync(path, 'await new Promise(() => {})\nexport default {}')
  service.process.kill('SIGHUP')
  await until(() => service.stdout().includes('still awaits something'))
  writeFileSync(path, "export default { blocklist: [{ path: '/users' }] }")
  service.process.kill('SIGHUP')
  await until(async () => (await fetch(`${service.url}/users`)).status === 403)
})
