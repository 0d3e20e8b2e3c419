import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { LimitsRefused, loadLimits } from '../../src/limits/load-limits.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { run, spawnService } from '../support/spawn-service.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

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
    expect(await loadLimits(file(name, text))).toMatchObject({ throttle: [THROTTLE], bans: [] })
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
          to: expect.any(Function),
          within: expect.any(Function),
          by: ['ip', expect.any(Function)],
          with: expect.any(Function),
        },
      ],
      blocklist: [{ userAgent: [/sqlmap/i, 'nikto'], match: expect.any(Function) }],
    })
  })

  test('a module anew each time', async () => {
    const path = file('limits.mjs', 'export default {}')
    for (const limit of [1, 2, 3]) {
      writeFileSync(path, `export default { throttle: [{ limit: ${limit}, period: 60 }] }`)
      expect(await loadLimits(path)).toMatchObject({ throttle: [{ limit }] })
    }
  })

  test('what a module imports, relative to it', async () => {
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
    { name: 'empty.json', text: '', mistake: /cannot be read \(.*JSON/ },
    { name: 'cut.json', text: '{"throttle": [', mistake: /cannot be read \(.*JSON/ },
    {
      name: 'broken in the middle.json',
      text: '{\n  "throttle": [\n    { "limit": 5, }\n  ]\n}\n',
      mistake: /cannot be read \(.*JSON/,
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

  test.each(['limits.json', 'limits.mjs', 'limits.js'])('%s that is not there', async name => {
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

test('loadLimits reads JSON that begins with a byte order mark, as editors of Windows write it', async () => {
  const path = file('limits.json', `\uFEFF${JSON.stringify({ throttle: [THROTTLE] })}`)
  expect(await loadLimits(path)).toMatchObject({ throttle: [THROTTLE] })
})

test('loadLimits tells all mistakes of a file', async () => {
  const text = JSON.stringify({ bans: [{ maxretry: 0 }], throtle: [] })
  expect(await mistakesOf(file('limits.json', text))).toEqual([
    'unknown key "throtle", did you mean "throttle"?',
    'bans[0]: maxretry must be a whole number from 1',
    expect.stringMatching(/^bans\[0\]: findtime is missing/),
    expect.stringMatching(/^bans\[0\]: bantime is missing/),
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
        'LIMITS_FILE was "limits.json": unknown key "trottle", did you mean "throttle"?',
        /^LIMITS_FILE was "limits\.json": throttle\[0\] "posts": period must be a time such as "1 day"/,
        /^LIMITS_FILE was "limits\.json": throttle\[0\] "posts": unknown key "onli"/,
        /^LIMITS_FILE was "limits\.json": track\[0\]: period is missing: it must be given with limit/,
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
        'LIMITS_FILE was "limits.json": rateLimits[0]: must be an object',
        'LIMITS_FILE was "limits.json": track[0]: must be an object',
        'LIMITS_FILE was "limits.json": bans: must be a list of rules',
      ],
    },
    {
      why: 'it is no JSON',
      name: 'limits.json',
      text: '{\n  "throttle": [\n    { "limit": 5, }\n  ]\n}\n',
      lines: [/^LIMITS_FILE was "limits\.json": the file cannot be read \(.*JSON.*\)$/],
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
  ])('stops the start with one line for each mistake when $why', async ({ name, text, lines }) => {
    const cwd = temporaryFolder()
    if (text !== undefined) writeFileSync(join(cwd, name), text)
    const { code, stdout, stderr } = await run({ cwd, env: { LIMITS_FILE: name, PORT: '0' } })
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

  test('has for it a file that runs nothing else, and its types', async () => {
    const resolved = createRequire(join(PROJECT, 'package.json')).resolve('user-records-service')
    expect(resolved).toBe(join(PROJECT, 'dist/limits/limits-file.js'))
    expect(Object.keys(await import(resolved))).toEqual(['defineLimits'])
    const { exports } = createRequire(import.meta.url)('../../package.json')
    expect(exports['.']).toEqual({
      types: './dist/limits/limits-file.d.ts',
      default: './dist/limits/limits-file.js',
    })
  })
})
