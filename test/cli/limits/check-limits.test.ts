import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand, stderrOf, stdoutOf } from '../../support/run-command.ts'

interface Asked {
  readonly rules?: string
  readonly file?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** `limits check` or `limits test` of a file with these rules. */
async function limits(command: string, { rules, file = 'rules.mjs', args = [], env = {} }: Asked) {
  const cwd = temporaryFolder()
  if (rules !== undefined) writeFileSync(join(cwd, file), rules)
  const finished = await runCommand({ cwd, env, args: ['limits', command, file, ...args] })
  // A test of rules leaves nothing behind.
  expect(readdirSync(cwd)).toEqual(rules === undefined ? [] : [file])
  return finished
}

function checked(asked: Asked): Promise<string> {
  return stdoutOf(limits('check', asked))
}

/** The lines that `limits test` prints. */
async function tried(asked: Asked): Promise<readonly string[]> {
  const stdout = await stdoutOf(limits('test', asked))
  return stdout.trimEnd().split('\n')
}

/** One rule of each kind, with its special options. */
const RULES = `
const plan = request => request.headers['x-plan']
export default {
  rateLimits: [
    { to: 5, within: 60, only: ['create'] },
    { name: 'plans', to: plan, within: () => '1 day', except: ['list'], by: ['ip', plan],
      with: { redirect: '/busy', alert: 'Too\\nmany' } },
  ],
  safelist: [{ name: 'office', ip: ['203.0.113.0/24', '2001:db8::/32'] }],
  blocklist: [{ name: 'tools', userAgent: [/nikto/i, { regex: 'sql/map' }], dryRun: true }],
  throttle: [{ name: 'posts', method: 'POST', path: '/a b', limit: 10, period: '1 day', by: 'header:X-Key',
    with: { status: 503, message: 'Later', headers: { 'X-Why': 'full' } } }],
  track: [
    { name: 'told', header: { 'X-A': '*' }, query: { q: ['1', '2'] }, match: plan },
    { name: 'often', host: 'a.example', limit: 6, period: 0.5 },
    { name: 'lost', status: [404], limit: 6, period: 60 },
  ],
  bans: [
    { name: 'login', path: '/login', maxretry: 5, findtime: '1 minute', bantime: '90 minutes' },
    { name: 'probing', path: ['/wp-*', '*.php'], maxretry: 3, findtime: '10 minutes', bantime: 1800, mode: 'fail2ban' },
    { name: 'guesses', path: '/users*', status: [401, 404], maxretry: 5, findtime: 60, bantime: 60 },
  ],
}`

describe('limits check', () => {
  test('prints the rules in the order of their evaluation, with defaults', async () => {
    expect(await checked({ rules: RULES })).toBe(`rules.mjs holds 11 rules, asked in this order
safelist "office": ip ["203.0.113.0/24","2001:db8::/32"]
blocklist "tools": userAgent [{"regex":"nikto","flags":"i"},{"regex":"sql/map"}], dryRun true
bans "login": path /login, maxretry 5, findtime 60 s, bantime 5400 s, by ip, mode allow2ban, dryRun false
bans "probing": path ["/wp-*","*.php"], maxretry 3, findtime 600 s, bantime 1800 s, mode fail2ban, by ip, dryRun false
bans "guesses": path /users*, status [401,404], maxretry 5, findtime 60 s, bantime 60 s, by ip, mode allow2ban, dryRun false
throttle "posts": method POST, path "/a b", limit 10, period 86400 s, by header:X-Key, with {"status":503,"message":"Later","headers":{"X-Why":"full"}}, dryRun false
track "told": header {"X-A":"*"}, query {"q":["1","2"]}, match "[function]", by ip, dryRun false
track "often": host a.example, limit 6, period 0.5 s, by ip, dryRun false
track "lost": status [404], limit 6, period 60 s, by ip, dryRun false
rateLimits "rateLimits[0]": to 5, within 60 s, by ip, with {"status":429}, dryRun false, actions ["create"]
rateLimits "plans": to "[function]", within "[function]", by ["ip","[function]"], with {"redirect":"/busy","alert":"Too\\nmany"}, dryRun false, actions ["read","create","update","delete","verify"]
`)
  })

  test('--json prints the same for programs, and leaves warnings to standard error', async () => {
    const { code, stdout, stderr } = await limits('check', {
      rules: RULES.replace('safelist: [', "safelist: [{ name: 'all' }, "),
      args: ['--json'],
    })
    expect(code).toBe(0)
    expect(stderr).toMatch(/^warning: safelist "all" matches every request: [^\n]+\n$/)
    const rules = JSON.parse(stdout)
    expect(rules[3]).toEqual({
      ...{ kind: 'bans', name: 'login', path: '/login', maxretry: 5, findtime_ms: 60_000 },
      ...{ bantime_ms: 5_400_000, by: 'ip', mode: 'allow2ban', dryRun: false },
    })
    expect(rules[11]).toMatchObject({
      ...{ to: '[function]', within: '[function]', by: ['ip', '[function]'] },
      actions: ['read', 'create', 'update', 'delete', 'verify'],
    })
  })

  test('understands a file without rules, and one with a single rule', async () => {
    expect(await checked({ file: 'none.json', rules: '{}' })).toBe('none.json holds no rules\n')
    const one = '{"blocklist": [{"path": "/x"}]}'
    expect(await checked({ file: 'one.json', rules: one })).toMatch(/^one\.json holds 1 rule\n/)
  })

  test.each<[file: string, rules: string | undefined, lines: (string | RegExp)[]]>([
    ['gone.json', undefined, ['gone.json: the file cannot be read (there is no such file)']],
    ['a b.mjs', 'throw new Error("no")', [/^"a b\.mjs": .*no/]],
    ['rules.yaml', '', [/^rules\.yaml: it may be a \.json file or an ES module/]],
    [
      'rules.json',
      '{"throttles": [], "track": [{"name": "a\\nb", "limit": 3}], "bans": {}}',
      [
        'rules.json: line 1: unknown key "throttles", did you mean "throttle"?',
        'rules.json: line 1: bans: must be a list of rules',
        'rules.json: line 1: track[0] "a\\nb": period is missing: it must be given with limit',
      ],
    ],
  ])('refuses %s with exit code 1 and a line for each mistake', async (file, rules, lines) => {
    const asked = { file, ...(rules !== undefined && { rules }) }
    const stderr = await stderrOf(limits('check', asked))
    expect(stderr.split('\n')).toEqual([
      ...lines.map(line => (typeof line === 'string' ? line : expect.stringMatching(line))),
      '',
    ])
  })

  test('warns of rules that match everything or nothing, and of rules that cannot count', async () => {
    const rules = `
    const one = { limit: 1, period: 1 }
    const ban = { maxretry: 1, findtime: 1, bantime: 1 }
    const actions = ['list', 'read', 'create', 'update', 'delete', 'verify']
    export default {
      safelist: [{ name: 'all' }, { name: 'sane', path: ['/x', '*y', /^\\/x?$/], query: { 'a b?': '*' } }],
      blocklist: [
        { name: 'all' }, { name: 'trial', dryRun: true },
        { name: 'query', path: ['/search?q=*', '/ok', '*?'] },
      ],
      bans: [{ name: 'every', mode: 'fail2ban', ...ban }, { name: 'sane', by: 'header:x-ok', ...ban }],
      throttle: [
        { name: 'slash', path: ['users'], ...one }, { name: 'star', path: '*x', ...one },
        { name: 'by key', by: 'key', ...one },
      ],
      track: [{ name: 'lower', method: 'get' }],
      rateLimits: [
        { name: 'none', to: 1, within: 1, except: actions },
        { name: 'mail', to: 1, within: 1, by: ['body:user.emal', 'body:email', 'body:user.email'] },
      ],
    }`
    const bodyless = [
      'rateLimits "mail" counts nothing: no body has "user.emal"; did you mean user.email?',
      'rateLimits "mail" counts nothing: no body has "email"; it has user.name, user.email, user.password',
    ]
    const keyless = 'throttle "by key" counts nothing: API_KEYS is off, so no request has a key'
    const env = { CACHE_STORE: 'none', API_KEYS: 'off' }
    const { code, stderr } = await limits('check', { rules, env })
    expect(code).toBe(0)
    const warnings = stderr
      .trimEnd()
      .split('\n')
      .map(line => line.replace(/^warning: /, ''))
    expect(warnings).toEqual([
      'safelist "all" matches every request: no other rule is ever asked',
      'blocklist "all" denies every request that no safelist lets through',
      'blocklist "query" has the path "/search?q=*": a path has no query, use the key query',
      'blocklist "query" has the path "*?": a path has no query, use the key query',
      'bans "every" denies every request that no safelist lets through',
      'throttle "slash" has the path "users": paths begin with /',
      keyless,
      'rateLimits "none" applies to no action: except names them all',
      ...bodyless,
      'CACHE_STORE is none: nothing is counted, so rules that count deny nothing',
    ])
    const keyed = await limits('check', { rules, env: { API_KEYS: 'required' } })
    expect(keyed.stderr).not.toContain(keyless)
    expect(keyed.stderr).not.toContain('CACHE_STORE')
  })
})

describe('limits test', () => {
  test('names every rule that counts the request, and the one that decides', async () => {
    const rules = `export default {
      blocklist: [{ name: 'trial', path: '/a', dryRun: true }],
      bans: [{ name: 'trial', path: '/a', maxretry: 1, findtime: 60, bantime: 60, dryRun: true }],
      throttle: [
        { name: 'trial', limit: 1, period: 60, dryRun: true },
        { name: 'no key', limit: 1, period: 60, by: 'header:X-Key' },
        { name: 'other', path: '/b', limit: 1, period: 60 },
        { name: 'tea', method: 'GET', header: { 'X-Tea': 'yes' }, limit: 2, period: 60,
          with: async (request, response) => {
            await new Promise(resolve => setTimeout(resolve, 5))
            response.status(418).send('tea')
          } },
      ],
      track: [{ name: 'plain' }, { name: 'lost', status: [404], limit: 1, period: 60 }],
    }`
    const headers = ['--header', 'X-Tea: yes', '--header', 'Host: x.example']
    const args = ['--path', '/a', ...headers, '--times', '3']
    const trial = 'blocklist "trial" would refuse, ban "trial"'
    const tracks = 'track "plain" passed, track "lost" passed'
    expect(await tried({ rules, args })).toEqual([
      `request 1 passes: ${trial} passed, throttle "trial" passed, throttle "tea" passed, ${tracks}`,
      `request 2 passes: ${trial} would refuse, throttle "trial" would refuse, throttle "tea" passed, ${tracks}`,
      `request 3 is refused with 418: ${trial} would refuse, throttle "trial" would refuse, throttle "tea" refused`,
    ])
  })

  test('counts by a key in the body, and by the name of an API key', async () => {
    const rules = `export default { rateLimits: [
      { name: 'one', to: 1, within: '1 day', by: 'body:user.email', with: { redirect: '/busy', alert: 'No' } },
      { name: 'two', to: 5, within: '1 day', by: 'key' },
    ] }`
    const body = '{"user": {"email": " A@B.example"}}'
    const request = ['--method', 'post', '--path', '/users?x=1', '--body', body, '--key', 'web']
    expect(await tried({ rules, args: [...request, '--times', '2'] })).toEqual([
      'request 1 passes: rateLimit "one" passed, rateLimit "two" passed',
      'request 2 is refused with 302: rateLimit "one" refused, rateLimit "two" passed',
    ])
  })

  test('lets requests pass as a function under `with` says, and tells of functions that fail', async () => {
    const rules = `export default { throttle: [
      { name: 'soft', limit: 1, period: 60, with: (request, response, next) => next() },
      { name: 'broken', limit: 1, period: 60, with: () => { throw new Error('oh no') } },
    ] }`
    const { code, stdout, stderr } = await limits('test', { rules, args: ['--times', '2'] })
    const passes = [1, 2].map(
      number => `request ${number} passes: throttle "soft" passed, throttle "broken" passed\n`,
    )
    expect({ code, stdout }).toEqual({ code: 0, stdout: passes.join('') })
    expect(stderr).toBe('throttle "broken": rule function failed, request allowed: "oh no"\n')
  })

  test('honours CACHE_STORE=none, trusts no proxy, and leaves Redis alone', async () => {
    const rules = `export default {
      safelist: [{ ip: '192.0.2.1' }],
      bans: [{ name: 'b', maxretry: 2, findtime: 1, bantime: 1 }],
    }`
    const args = ['--header', 'X-Forwarded-For: 192.0.2.1', '--times', '3']
    const none = { CACHE_STORE: 'none', TRUST_PROXY: '1' }
    const uncounted = [1, 2, 3].map(number => `request ${number} passes: no rule counts it`)
    expect(await tried({ rules, args, env: none })).toEqual(uncounted)
    const redis = { CACHE_STORE: 'redis', REDIS_URL: 'redis://:wrong@cache.invalid' }
    const counted = await tried({ rules, args, env: redis })
    expect(counted).toEqual(await tried({ rules, args }))
    expect(counted.at(-1)).toBe('request 3 is refused with 403: ban "b" refused')
  })

  test('--json prints each request by itself, and --expect what was not expected on standard error', async () => {
    const rules = `export default {
      rateLimits: ['one', 'two'].map(name => ({ name, to: 1, within: '1 minute' })),
      track: [{ name: 'told', path: '/users' }],
    }`
    const args = ['--path', '/users?count=true', '--times', '2', '--json', '--expect', 'allowed']
    const { code, stdout, stderr } = await limits('test', { rules, args })
    expect(code).toBe(3)
    expect(stderr).toBe('expected allowed, but request 2 is denied with 429 by rateLimit "one"\n')
    const passed = [
      { type: 'track', rule: 'told', outcome: 'passed' },
      { type: 'rateLimit', rule: 'one', outcome: 'passed' },
      { type: 'rateLimit', rule: 'two', outcome: 'passed' },
    ]
    const first = {
      ...{ number: 1, outcome: 'allowed', denied_by: null, status: null, body: null },
      headers: expect.objectContaining({ ratelimit: '"one"; r=0; t=60, "two"; r=0; t=60' }),
      rules: passed,
    }
    const second = {
      ...{ number: 2, outcome: 'denied', denied_by: { type: 'rateLimit', rule: 'one' } },
      ...{ status: 429, headers: expect.objectContaining({ 'retry-after': '60' }) },
      body: expect.stringContaining('"code":429'),
      rules: [passed[0], { ...passed[1], outcome: 'refused' }],
    }
    expect(JSON.parse(stdout)).toEqual({
      ...{ file: 'rules.mjs', allowed: 1, denied: 1, results: [first, second] },
    })
  })

  test.each([
    { expected: 'allowed', times: 2, error: '' },
    { expected: 'denied', times: 3, error: '' },
    { expected: 'allowed', times: 3, every: '31s', error: '' },
    {
      expected: 'denied',
      times: 2,
      error: /^expected denied, but request 2, the last one, is all/,
    },
    { expected: 'allowed', times: 5, error: /^expected allowed, but request 3 is denied with 429/ },
    // Requests 3 and 6 are denied, and the seventh passes.
    { expected: 'denied', times: 7, every: '20s', error: /^expected denied, but request 7,/ },
  ])(
    '--expect $expected of $times requests every $every: $error',
    async ({ expected, times, every = '0', error }) => {
      const rules = JSON.stringify({ throttle: [{ limit: 2, period: '1 minute' }] })
      const args = ['--times', `${times}`, '--every', every, '--expect', expected]
      const { code, stderr } = await limits('test', { file: 'rules.json', rules, args })
      expect(code).toBe(error === '' ? 0 : 3)
      expect(stderr).toEqual(error === '' ? '' : expect.stringMatching(error))
    },
  )

  test('ends with exit code 1 if a function never answers, and names mistakes in the rules', async () => {
    const rules = `export default { throttle: [{ limit: 1, period: 1, with: () => { process.emit('asked') } }] }`
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const asked = once(process as NodeJS.EventEmitter, 'asked')
    const finished = limits('test', { rules, args: ['--times', '2'] })
    await asked
    vi.advanceTimersByTime(10_000)
    vi.useRealTimers()
    const stderr =
      'the request got no answer within 10 seconds: a function under `with` does not answer\n'
    expect(await finished).toEqual({ code: 1, stdout: '', stderr })
    const wrong = await limits('test', { rules: 'export default { throttle: [{}] }' })
    expect(wrong).toMatchObject({ code: 1, stdout: '' })
    expect(wrong.stderr).toMatch(/^rules\.mjs: throttle\[0\]: limit is missing/)
  })

  test.each([
    [['--method', 'CONNECT'], '--method was CONNECT'],
    [['--path', '/ä'], '--path was "/ä"'],
    [['--ip', '198.51.100.0/24'], '--ip was 198.51.100.0/24'],
    [['--header', 'nothing'], '--header was nothing'],
    [['--header', 'A: b\r\nC: d'], '--header was "A: b\\r\\nC: d"'],
    [['--header', 'content-length: 5'], '--header was "content-length: 5"'],
    [['--key', 'a b'], '--key was "a b"'],
    [['--times', '0'], '--times was 0'],
    [['--times', '1e9'], '--times was 1e9'],
    [['--every', 'never'], '--every was never'],
    [['--expect', 'refused'], "option '--expect <OUTCOME>' argument 'refused' is"],
    [['--colour'], "unknown option '--colour'"],
  ])('refuses %j with exit code 2 and one line', async (args, named) => {
    const stderr = await stderrOf(limits('test', { rules: 'export default {}', args }), 2)
    expect(stderr).toMatch(/^[^\n]+; see --help\n$/)
    expect(stderr.slice(0, named.length)).toBe(named)
  })
})
