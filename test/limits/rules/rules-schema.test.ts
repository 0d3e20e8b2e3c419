import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import type { Request } from 'express'
import { describe, expect, test } from 'vitest'
import { checkLimits } from '../../../src/limits/rules/checked-limits.ts'
import type { CheckedLimits, RuleKind } from '../../../src/limits/rules/compiled-rules.ts'
import { defineLimits } from '../../../src/limits/rules/limits-file.ts'
import { RULE_KINDS } from '../../../src/limits/rules/rules-schema.ts'

/** A valid rule of each kind. */
const RIGHT: Readonly<Record<RuleKind, Readonly<Record<string, unknown>>>> = {
  rateLimits: { to: 5, within: '1 minute' },
  safelist: { ip: '203.0.113.7' },
  blocklist: { userAgent: '*sqlmap*' },
  bans: { maxretry: 5, findtime: '1 minute', bantime: '1 hour' },
  throttle: { limit: 10, period: '1 day' },
  track: { limit: 6, period: '1 minute' },
}

const FILTER_KINDS: readonly RuleKind[] = ['safelist', 'blocklist', 'bans', 'throttle', 'track']

function accepted(value: unknown): CheckedLimits {
  const checked = checkLimits(value)
  if ('mistakes' in checked) throw new Error(checked.mistakes.join('\n'))
  return checked.limits
}

function mistakesOf(value: unknown): readonly string[] {
  const checked = checkLimits(value)
  return 'mistakes' in checked ? checked.mistakes : []
}

/** The mistakes of one rule, which differs from the valid one of its kind by these keys. */
function mistakesOfRule(kind: RuleKind, keys: object): readonly string[] {
  return mistakesOf({ [kind]: [{ ...RIGHT[kind], ...keys }] })
}

const EXAMPLE = {
  rateLimits: [
    { name: 'sign-ups', to: 5, within: '1 minute', only: ['create'] },
    {
      ...{ name: 'by domain', to: 1000, within: '10 seconds', by: 'domain' },
      except: ['list', 'read'],
      with: { redirect: '/busy', alert: 'Too many signups on domain!' },
    },
  ],
  safelist: [{ name: 'office', ip: ['203.0.113.0/24', '2001:db8::/32'] }],
  blocklist: [{ name: 'scanners', userAgent: { regex: 'sqlmap|nikto', flags: 'i' } }],
  throttle: [{ name: 'posts', method: 'POST', path: '/posts', limit: 10, period: '1 day' }],
  track: [{ name: 'special agent', userAgent: 'SpecialAgent', limit: 6, period: '1 minute' }],
  bans: [
    {
      ...{ name: 'login', method: 'POST', path: '/login' },
      ...{ maxretry: 5, findtime: '1 minute', bantime: '1 hour' },
    },
    {
      ...{ name: 'probing', path: ['/wp-admin*', '/etc/passwd'], mode: 'fail2ban' },
      ...{ maxretry: 3, findtime: '10 minutes', bantime: '30 minutes' },
    },
  ],
}

describe('checkLimits accepts', () => {
  test('rules of every kind, and compiles them with their defaults', () => {
    const limits = accepted({ ...EXAMPLE, track: [{}] })
    const matches = expect.any(Function)
    const counts = { isDryRun: false, matches, keyOf: expect.any(Function) }
    expect(limits).toMatchObject({
      safelist: [{ name: 'office', isDryRun: false, matches }],
      blocklist: [{ name: 'scanners', isDryRun: false, matches }],
      bans: [
        { ...counts, limit: 5, windowMs: 60_000, banMs: 3_600_000, deniesStrikes: false },
        { ...counts, limit: 3, windowMs: 600_000, banMs: 1_800_000, deniesStrikes: true },
      ],
      throttle: [{ ...counts, limit: 10, windowMs: 86_400_000, answer: undefined }],
      track: [{ name: 'track[0]', isDryRun: false, matches }],
      rateLimits: [
        { actions: ['create'], limit: 5, windowMs: 60_000, isDryRun: false, answer: undefined },
        { actions: ['create', 'update', 'delete', 'verify'], answer: { redirect: '/busy' } },
      ],
    })
    expect(limits.track[0]).not.toHaveProperty('limit')
  })

  test('rules, keeps the source of each, and does not change it', () => {
    const before = structuredClone(EXAMPLE)
    const limits = accepted(EXAMPLE)
    for (const kind of RULE_KINDS) {
      const rules: readonly { readonly source: object }[] = limits[kind]
      expect(rules.map(({ source }) => source)).toEqual(EXAMPLE[kind])
    }
    expect(EXAMPLE).toEqual(before)
  })

  test('rules without a name, which are named by their place', () => {
    const { throttle } = accepted({ throttle: [RIGHT.throttle, { ...RIGHT.throttle, name: 'b' }] })
    expect(throttle).toMatchObject([
      { name: 'throttle[0]', source: { name: 'throttle[0]' } },
      { name: 'b' },
    ])
  })

  test('kinds that are left out, undefined or empty as empty', () => {
    const empty = Object.fromEntries(RULE_KINDS.map(kind => [kind, []]))
    for (const value of [{}, { throttle: undefined }, empty]) expect(accepted(value)).toEqual(empty)
  })

  test('limits.example.json, and what defineLimits gives back', () => {
    const example = new URL('../../../limits.example.json', import.meta.url)
    accepted(JSON.parse(readFileSync(example, 'utf8')))
    expect(accepted(defineLimits({ safelist: [{ ip: '::1' }] })).safelist).toHaveLength(1)
  })

  test.each([/agent/g, /agent/y, /agent/gy])('%s, which matches the same each time', expression => {
    const [rule] = accepted({ blocklist: [{ userAgent: expression }] }).blocklist
    const request = { rawHeaders: ['User-Agent', 'agent'] } as unknown as Request
    expect([1, 2, 3, 4].map(() => rule?.matches(request))).toEqual([true, true, true, true])
    expect(expression.lastIndex).toBe(0)
  })
})

const TIMES = [
  ...['30s', '1 minute', '10 minutes', '1 hour', '1 day', '365 days', '1 HOUR', '500ms'],
  ...[1, 0.5, 31_536_000],
]
const NO_TIMES = [
  ...['0s', '0', '-1s', '1 fortnight', '2 years', '366 days', '', 'soon', '1.5 hours'],
  ...['1 minute 30', 0, -1, 31_536_001, Number.NaN, Infinity, null, true, ['1 day'], 10n],
  { minutes: 1 },
]

const NO_COUNTS = [0, -1, 1.5, '5', Number.NaN, Infinity, 2 ** 53, null, true, [5], {}, 5n]

const PATTERNS = [
  ...['/users', '/users/*', '*', /^\/users/i],
  { regex: '^/users$' },
  { regex: '^/users$', flags: 'imsu' },
  ['/users', /x/, { regex: 'y' }],
]
const NO_PATTERNS = [
  ...[5, null, true, [], [5], ['/a', null], [['/a']], {}, ['/a', { regex: '[' }], () => true],
  ...['g', 'y', 'ii', 'x'].map(flags => ({ regex: 'a', flags })),
  ...[{ regex: '(' }, { regex: 5 }, { regex: 'a', flag: 'i' }, { regex: '\\p{', flags: 'u' }],
]
const NO_RECORDS = [null, 5, 'x', [], ['x'], () => true, { '': 'x' }, JSON.parse('{"__proto__":5}')]

const ADDRESSES = [
  ...['203.0.113.7', '0.0.0.0/0', '203.0.113.7/32', '::1', '::/0', '2001:db8::/128'],
  ['10.0.0.0/8', '::ffff:10.0.0.1'],
]
const NO_ADDRESSES = [
  ...['', 'localhost', '203.0.113', '203.0.113.256', '203.0.113.0/33', '203.0.113.0/'],
  ...['203.0.113.0/-1', '203.0.113.0/8/8', '203.0.113.0/1e1', '2001:db8::/129', 'fe80::1%eth0'],
  ...['[::1]', '10.0.0.1 ', '10.0.0.1,10.0.0.2', '10.0.0.*'],
  ...[5, null, [], ['10.0.0.1', 'nowhere'], [['10.0.0.1']], { ip: '10.0.0.1' }],
]

const KEYS = [
  ...['ip', 'domain', 'host', 'path', 'header:X-Api-Key', 'query:email', ['ip', 'path']],
  ...[() => 'ann', ['ip', () => 'ann']],
]
const BODY_KEYS = ['body:user.email', 'body:user', ['ip', 'body:user.email']]
const NO_KEYS = [
  ...['', 'IP', 'address', 'header', 'header:', 'query:', 'cookie:a', 'ip '],
  ...[5, null, true, [], ['ip', 'address'], ['ip', ['path']], { header: 'x' }],
]

const ANSWERS = [
  { redirect: '/busy' },
  { redirect: 'https://example.com/busy', alert: 'Wait' },
  ...[{}, { status: 503 }, { message: 'Wait' }, { headers: { 'X-Why': 'speed' } }, () => {}],
]
const NO_ANSWERS = [
  ...[null, '/busy', 5, [], { alert: 'Wait' }, { message: 5 }, { body: 'Wait' }],
  ...['', 5, '/busy\r\nSet-Cookie: a=b', '/busy\n', '/bu\0sy', '/beschäftigt €', '/a b'].map(
    redirect => ({ redirect }),
  ),
  { redirect: '/busy', status: 301 },
  { redirect: '/busy', alert: 5 },
  { redirect: '/busy', headers: {} },
  ...[99, 100, 600, 429.5, '429'].map(status => ({ status })),
  { headers: [] },
  ...[5, ['a'], 'a\r\nSet-Cookie: a=b', 'a\nb', 'a\0b', '\u007f', 'speed €'].map(value => ({
    headers: { 'X-Why': value },
  })),
  ...['X-Why: a\r\nSet-Cookie', 'X Why', '', 'Connection', 'x-request-id'].map(name => ({
    headers: { [name]: 'a' },
  })),
]

const STATUSES = [[200], [401, 404], [404, 404], [599]]
const NO_STATUSES = [404, '404', [], ['404'], [199], [600], [404.5], [null], null, {}]

const ACTIONS = [['create'], ['list', 'read', 'create', 'update', 'delete', 'verify']]
const NO_ACTIONS = [
  ...[[], 'create', ['creat'], ['create', 'destroy'], ['Create'], [null], {}, null],
  () => ['create'],
]

const byName = (values: readonly unknown[]) => values.map(value => ({ 'X-A': value }))

type Values = readonly unknown[]

describe('checkLimits takes and refuses values, naming rule and key', () => {
  test.each<[keys: string, kinds: readonly RuleKind[], right: Values, wrong: Values]>([
    ['to', ['rateLimits'], [1, 1000, () => 5], NO_COUNTS],
    ['within', ['rateLimits'], [...TIMES, () => 60], NO_TIMES],
    ['only', ['rateLimits'], ACTIONS, NO_ACTIONS],
    ['except', ['rateLimits'], ACTIONS, NO_ACTIONS],
    [
      ...(['by', ['rateLimits'], [...KEYS, ...BODY_KEYS]] as const),
      [...NO_KEYS, 'body', 'body:', 'body:a..b', 'body:a.'],
    ],
    ['by', ['throttle', 'track', 'bans'], KEYS, [...NO_KEYS, ...BODY_KEYS]],
    ['with', ['rateLimits', 'throttle'], ANSWERS, NO_ANSWERS],
    ['limit', ['throttle', 'track'], [1, 1000], [...NO_COUNTS, () => 5]],
    ['period', ['throttle', 'track'], TIMES, [...NO_TIMES, () => 60]],
    ['status', ['bans', 'track'], STATUSES, NO_STATUSES],
    ['maxretry', ['bans'], [1], NO_COUNTS],
    ['findtime', ['bans'], TIMES, NO_TIMES],
    ['bantime', ['bans'], TIMES, NO_TIMES],
    ['mode', ['bans'], ['allow2ban', 'fail2ban'], ['', 'Fail2ban', 'ban', null, true]],
    ['method', FILTER_KINDS, [...PATTERNS, ['GET', 'post']], NO_PATTERNS],
    ['path', FILTER_KINDS, PATTERNS, NO_PATTERNS],
    ['host', FILTER_KINDS, PATTERNS, NO_PATTERNS],
    ['userAgent', FILTER_KINDS, PATTERNS, NO_PATTERNS],
    ['ip', FILTER_KINDS, ADDRESSES, NO_ADDRESSES],
    ['header', FILTER_KINDS, byName(PATTERNS), [...NO_RECORDS, ...byName(NO_PATTERNS)]],
    ['query', FILTER_KINDS, byName(PATTERNS), [...NO_RECORDS, ...byName(NO_PATTERNS)]],
    ['match', FILTER_KINDS, [() => true], [true, '() => true', null, {}]],
    [
      ...(['dryRun', ['rateLimits', 'blocklist', 'bans', 'throttle', 'track']] as const),
      ...([
        [true, false],
        ['true', 1, null, 'yes'],
      ] as const),
    ],
    ['name', RULE_KINDS, ['a', 'x'.repeat(200), 'Grüße "für" \\'], [5, null, [], {}]],
  ])('of %s on %j', (key, kinds, right, wrong) => {
    for (const kind of kinds) {
      const mistakesWith = (value: unknown) => mistakesOfRule(kind, { [key]: value })
      for (const value of right)
        expect(mistakesWith(value), `${kind} ${inspect(value)}`).toEqual([])
      for (const value of wrong) {
        const mistakes = mistakesWith(value)
        expect(mistakes, `${kind} ${inspect(value)}`).not.toEqual([])
        for (const mistake of mistakes) {
          expect(mistake).toMatch(new RegExp(`^${kind}\\[0\\]: ${key}[. ].*$`))
        }
      }
    }
  })

  test.each(RULE_KINDS)('of a name on %s that is too short or too long', kind => {
    for (const name of ['', 'x'.repeat(201)]) {
      const mistake = expect.stringMatching(`^${kind}\\[0\\] "x*": name must be a name`)
      expect(mistakesOfRule(kind, { name })).toEqual([mistake])
    }
  })

  test('with the header or the parameter whose pattern is wrong', () => {
    const header = { 'X-A': ['a', { regex: '(' }], 'X-B': 'b', 'X-C': 5 }
    expect(mistakesOfRule('blocklist', { header })).toEqual([
      expect.stringMatching(
        /^blocklist\[0\]: header\.X-A must be a regular expression that compiles \(/,
      ),
      expect.stringMatching(/^blocklist\[0\]: header\.X-C must be a pattern /),
    ])
  })
})

describe('checkLimits refuses', () => {
  test.each<[RuleKind, string[]]>([
    ['rateLimits', ['to', 'within']],
    ['bans', ['maxretry', 'findtime', 'bantime']],
    ['throttle', ['limit', 'period']],
    ['track', ['limit', 'period']],
  ])('%s without one of %j', (kind, keys) => {
    for (const key of keys) {
      const { [key]: _left, ...others } = RIGHT[kind]
      expect(mistakesOf({ [kind]: [others] })).toEqual([
        expect.stringMatching(`^${kind}\\[0\\]: ${key} is missing: it must be `),
      ])
      expect(mistakesOfRule(kind, { [key]: undefined })).toEqual([
        expect.stringMatching(`^${kind}\\[0\\]: ${key} `),
      ])
    }
  })

  test.each(RULE_KINDS)('rules of %s that are no list, and a rule that is no object', kind => {
    for (const rules of [{}, null, 'x', 5, true, () => []]) {
      expect(mistakesOf({ [kind]: rules })).toEqual([`${kind}: must be a list of rules`])
    }
    for (const rule of [null, [], ['x'], 'ip', '', 5, true, () => ({}), undefined]) {
      expect(mistakesOf({ [kind]: [RIGHT[kind], rule] })).toEqual([`${kind}[1]: must be an object`])
    }
  })

  test.each([null, undefined, [], [{}], 'x', 5, true, () => ({})])('a file of %s', value => {
    expect(mistakesOf(value)).toEqual(['the file must hold an object of rules'])
  })

  test('keys that cannot be given together', () => {
    expect(mistakesOfRule('bans', { status: [404], mode: 'fail2ban' })).toEqual([
      'bans[0]: status cannot be given together with mode "fail2ban", which denies before the answer is known',
    ])
    expect(mistakesOfRule('rateLimits', { only: ['list'], except: ['read'] })).toEqual([
      'rateLimits[0]: except cannot be given together with only',
    ])
  })

  test.each<[key: string, hint: string | undefined]>([
    ['ratelimits', 'rateLimits'],
    ['rateLimit', 'rateLimits'],
    ['throttles', 'throttle'],
    ['safe list', 'safelist'],
    ['ban', 'bans'],
    ...['allow', '', 'toString', 'constructor', 'hasOwnProperty', '__proto__', 'two\nlines'].map(
      (key): [string, undefined] => [key, undefined],
    ),
  ])('the unknown key %j at the top', (key, hint) => {
    const end = hint === undefined ? '' : `, did you mean "${hint}"?`
    const value = JSON.parse(`{${JSON.stringify(key)}: []}`)
    expect(mistakesOf(value)).toEqual([`unknown key ${JSON.stringify(key)}${end}`])
  })

  test.each<[RuleKind, Readonly<Record<string, string | undefined>>]>([
    [
      'rateLimits',
      {
        ...{ onli: 'only', excpet: 'except', withn: 'within' },
        ...{ path: undefined, match: undefined, status: undefined },
      },
    ],
    ['safelist', { ips: 'ip', dryRun: undefined, by: undefined, status: undefined }],
    ['blocklist', { useragent: 'userAgent', limit: undefined, with: undefined, status: undefined }],
    ['bans', { maxRetry: 'maxretry', findTime: 'findtime', with: undefined }],
    ['throttle', { limmit: 'limit', to: undefined, status: undefined }],
    [
      'track',
      { methods: 'method', with: undefined, constructor: undefined, ['__proto__']: undefined },
    ],
  ])('unknown keys of %s', (kind, keys) => {
    for (const [key, hint] of Object.entries(keys)) {
      const rule = { ...RIGHT[kind], name: 'it' }
      Object.defineProperty(rule, key, { value: true, enumerable: true })
      const end = hint === undefined ? '' : `, did you mean "${hint}"?`
      expect(mistakesOf({ [kind]: [rule] })).toEqual([
        `${kind}[0] "it": unknown key ${JSON.stringify(key)}${end}`,
      ])
    }
  })

  test.each(RULE_KINDS)('a name that is given twice in %s', kind => {
    const rule = (name?: string) => ({ ...RIGHT[kind], ...(name !== undefined && { name }) })
    expect(mistakesOf({ [kind]: [rule('a'), rule('b'), rule('a'), rule('a')] })).toEqual([
      `${kind}[2] "a": name is given twice in ${kind}`,
      `${kind}[3] "a": name is given twice in ${kind}`,
    ])
    expect(mistakesOf({ [kind]: [rule('a'), rule('A'), rule(), rule()] })).toEqual([])
  })

  test('no name that is given in two kinds', () => {
    const named = RULE_KINDS.map(kind => [kind, [{ ...RIGHT[kind], name: 'same' }]])
    expect(mistakesOf(Object.fromEntries(named))).toEqual([])
  })

  test.each([
    [[undefined, undefined, 'throttle[1]'], ['throttle[2] "throttle[1]"']],
    [['throttle[1]', undefined], ['throttle[1]']],
    [['throttle[0]', undefined], []],
    [['throttle[2]', undefined], []],
  ])('the place of a rule without a name as the name of another: %j', (names, twice) => {
    const throttle = names.map(name => ({ ...RIGHT.throttle, ...(name && { name }) }))
    expect(mistakesOf({ throttle })).toEqual(
      twice.map(label => `${label}: name is given twice in throttle`),
    )
  })
})

test('checkLimits reports all mistakes at once, one line each', () => {
  expect(
    mistakesOf({
      trottle: [],
      rateLimits: [
        { name: 'sign-ups', to: 0, within: '0s', only: ['list'], except: ['read'], onli: [] },
      ],
      safelist: [{ dryRun: true, ip: 'nowhere' }],
      blocklist: {},
      throttle: [
        { name: 'posts', limit: 10, period: '1 fortnight' },
        { name: 'posts', limit: 10 },
      ],
      track: [{ limit: 6 }],
      bans: [{ name: 'login', maxretry: 5, findtime: 60, bantime: 60, mode: 'jail' }],
    }).toSorted(),
  ).toEqual([
    'bans[0] "login": mode must be "allow2ban" or "fail2ban"',
    'blocklist: must be a list of rules',
    'rateLimits[0] "sign-ups": except cannot be given together with only',
    'rateLimits[0] "sign-ups": to must be a whole number from 1, or a function',
    'rateLimits[0] "sign-ups": unknown key "onli", did you mean "only"?',
    'rateLimits[0] "sign-ups": within must be a time such as "1 minute", or a function',
    'safelist[0]: ip must be an address or a range such as "203.0.113.0/24", or a list of them',
    'safelist[0]: unknown key "dryRun"',
    'throttle[0] "posts": period must be a time such as "1 day", more than 0 and at most a year',
    'throttle[1] "posts": name is given twice in throttle',
    'throttle[1] "posts": period is missing: it must be a time such as "1 day", more than 0 and at most a year',
    'track[0]: period is missing: it must be given with limit',
    'unknown key "trottle", did you mean "throttle"?',
  ])
  const rule = { name: 'two\nlines', 'a\nb': 1, header: { 'x\ny': 5 }, query: { 'x\ny': 5 } }
  const mistakes = mistakesOf({ blocklist: [rule] })
  expect(mistakes).toHaveLength(3)
  for (const mistake of mistakes) expect(mistake).not.toMatch(/[\r\n]/)
})
