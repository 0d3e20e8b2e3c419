import { readFileSync } from 'node:fs'
import type { Request } from 'express'
import { describe, expect, test } from 'vitest'
import { checkLimits } from '../../../src/limits/rules/checked-limits.ts'
import type { RuleKind } from '../../../src/limits/rules/compiled-rules.ts'
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

const COUNTING_KINDS: readonly RuleKind[] = ['rateLimits', 'bans', 'throttle', 'track']

const FILTER_KINDS: readonly RuleKind[] = ['safelist', 'blocklist', 'bans', 'throttle', 'track']

function mistakesOf(value: unknown): readonly string[] {
  const checked = checkLimits(value)
  return 'mistakes' in checked ? checked.mistakes : []
}

/** The mistakes of one rule, which differs from the valid one of its kind by these keys. */
function mistakesOfRule(kind: RuleKind, keys: object): readonly string[] {
  return mistakesOf({ [kind]: [{ ...RIGHT[kind], ...keys }] })
}

function tableOf(kinds: readonly RuleKind[], key: string, values: readonly unknown[]) {
  return kinds.flatMap(kind => values.map(value => ({ kind, key, value })))
}

const CONTRACT_EXAMPLE = {
  rateLimits: [
    { to: 5, within: '1 minute', only: ['create'] },
    {
      name: 'by domain',
      to: 1000,
      within: '10 seconds',
      except: ['list', 'read'],
      by: 'domain',
      with: { redirect: '/busy', alert: 'Too many signups on domain!' },
    },
  ],
  safelist: [{ name: 'office', ip: ['203.0.113.0/24', '2001:db8::/32'] }],
  blocklist: [{ name: 'scanners', userAgent: { regex: 'sqlmap|nikto', flags: 'i' } }],
  throttle: [{ name: 'posts', method: 'POST', path: '/posts', limit: 10, period: '1 day' }],
  track: [{ name: 'special agent', userAgent: 'SpecialAgent', limit: 6, period: '1 minute' }],
  bans: [
    {
      name: 'login',
      method: 'POST',
      path: '/login',
      maxretry: 5,
      findtime: '1 minute',
      bantime: '1 hour',
    },
    {
      name: 'probing',
      path: ['/wp-admin*', '/etc/passwd'],
      maxretry: 3,
      findtime: '10 minutes',
      bantime: '30 minutes',
      mode: 'fail2ban',
    },
  ],
}

describe('checkLimits accepts', () => {
  const example = new URL('../../../limits.example.json', import.meta.url)

  test.each([
    { what: 'an example of every kind', value: CONTRACT_EXAMPLE },
    { what: 'limits.example.json', value: JSON.parse(readFileSync(example, 'utf8')) },
    { what: 'no rules', value: {} },
    { what: 'empty kinds', value: Object.fromEntries(RULE_KINDS.map(kind => [kind, []])) },
    { what: 'a kind that is undefined', value: { throttle: undefined } },
    { what: 'what defineLimits gives back', value: defineLimits({ safelist: [{ ip: '::1' }] }) },
  ])('$what', ({ value }) => {
    expect(checkLimits(value)).toEqual({ limits: expect.anything() })
  })

  test('rules, and keeps the source of each, with a name', () => {
    const [unnamed, named] = CONTRACT_EXAMPLE.rateLimits
    const sources = {
      ...CONTRACT_EXAMPLE,
      rateLimits: [{ ...unnamed, name: 'rateLimits[0]' }, named],
    }
    const checked = checkLimits(CONTRACT_EXAMPLE)
    if ('mistakes' in checked) throw new Error(checked.mistakes.join())
    for (const kind of RULE_KINDS) {
      const rules: readonly { source: object }[] = checked.limits[kind]
      expect(rules.map(({ source }) => source)).toEqual(sources[kind])
    }
  })

  test('rules, and compiles them with their defaults', () => {
    const checked = checkLimits({ ...CONTRACT_EXAMPLE, track: [{}] })
    const matches = expect.any(Function)
    const counts = { isDryRun: false, matches, keyOf: expect.any(Function) }
    expect(checked).toMatchObject({
      limits: {
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
      },
    })
    expect(checked).not.toHaveProperty('limits.track.0.limit')
  })

  test('kinds that are left out as empty', () => {
    expect(checkLimits({})).toEqual({
      limits: Object.fromEntries(RULE_KINDS.map(kind => [kind, []])),
    })
  })

  const TIMES = [
    '30s',
    '1 minute',
    '10 minutes',
    '1 hour',
    '1 day',
    '365 days',
    '1 HOUR',
    '500ms',
    1,
    0.5,
    31_536_000,
  ]
  const KEYS = [
    'ip',
    'domain',
    'host',
    'path',
    'header:X-Api-Key',
    'query:email',
    ['ip', 'path'],
    () => 'ann',
    ['ip', () => 'ann'],
  ]
  const ANSWERS = [
    { redirect: '/busy' },
    { redirect: 'https://example.com/busy', alert: 'Wait' },
    { status: 503 },
    { message: 'Wait' },
    { headers: { 'X-Why': 'speed' } },
    {},
    () => {},
  ]
  const PATTERNS = [
    '/users',
    '/users/*',
    '*',
    /^\/users/i,
    { regex: '^/users$' },
    { regex: '^/users$', flags: 'imsu' },
    ['/users', /x/, { regex: 'y' }],
  ]
  const ADDRESSES = [
    '203.0.113.7',
    '0.0.0.0/0',
    '203.0.113.7/32',
    '::1',
    '::/0',
    '2001:db8::/128',
    ['10.0.0.0/8', '::ffff:10.0.0.1'],
  ]

  test.each([
    ...tableOf(['rateLimits'], 'to', [1, 1000, () => 5]),
    ...tableOf(['rateLimits'], 'within', [...TIMES, () => 60]),
    ...tableOf(['rateLimits'], 'only', [
      ['create'],
      ['list', 'read', 'create', 'update', 'delete', 'verify'],
    ]),
    ...tableOf(['rateLimits'], 'except', [['list']]),
    ...tableOf(['rateLimits'], 'by', [
      ...KEYS,
      'body:user.email',
      'body:user',
      ['ip', 'body:user.email'],
    ]),
    ...tableOf(['throttle', 'track', 'bans'], 'by', KEYS),
    ...tableOf(['rateLimits', 'throttle'], 'with', ANSWERS),
    ...tableOf(['throttle', 'track'], 'limit', [1, 1000]),
    ...tableOf(['throttle', 'track'], 'period', TIMES),
    ...tableOf(['bans', 'track'], 'status', [[200], [401, 404], [404, 404], [599]]),
    ...tableOf(['bans'], 'maxretry', [1]),
    ...tableOf(['bans'], 'findtime', TIMES),
    ...tableOf(['bans'], 'bantime', TIMES),
    ...tableOf(['bans'], 'mode', ['allow2ban', 'fail2ban']),
    ...tableOf(['blocklist'], 'method', ['POST', ['GET', 'post'], /^P/]),
    ...tableOf(['safelist', 'track'], 'path', PATTERNS),
    ...tableOf(['blocklist'], 'host', PATTERNS),
    ...tableOf(['blocklist'], 'userAgent', PATTERNS),
    ...tableOf(FILTER_KINDS, 'ip', ADDRESSES),
    ...tableOf(['blocklist', 'bans'], 'header', [{ 'X-A': '1' }, { 'X-A': ['1', /2/], b: '*' }]),
    ...tableOf(['throttle'], 'query', [{ debug: '*' }]),
    ...tableOf(FILTER_KINDS, 'match', [() => true]),
    ...tableOf(['rateLimits', 'blocklist', 'bans', 'throttle', 'track'], 'dryRun', [true, false]),
    ...tableOf(RULE_KINDS, 'name', ['a', 'x'.repeat(200), 'Grüße "für" \\']),
  ])('$kind with $key $value', ({ kind, key, value }) => {
    expect(mistakesOfRule(kind, { [key]: value })).toEqual([])
  })
})

const WRONG_TIMES = [
  '0s',
  '0',
  '-1s',
  '1 fortnight',
  '2 years',
  '366 days',
  '',
  'soon',
  '1.5 hours',
  '1 minute 30',
  0,
  -1,
  31_536_001,
  Number.NaN,
  Infinity,
  null,
  true,
  ['1 day'],
  { minutes: 1 },
  10n,
]

const WRONG_COUNTS = [0, -1, 1.5, '5', Number.NaN, Infinity, 2 ** 53, null, true, [5], {}, 5n]

const WRONG_PATTERNS = [
  5,
  null,
  true,
  [],
  [5],
  ['/a', null],
  [['/a']],
  {},
  { regex: '(' },
  { regex: 5 },
  { regex: 'a', flags: 'g' },
  { regex: 'a', flags: 'y' },
  { regex: 'a', flags: 'ii' },
  { regex: 'a', flags: 'x' },
  { regex: 'a', flag: 'i' },
  { regex: '\\p{', flags: 'u' },
  ['/a', { regex: '[' }],
  () => true,
]

const WRONG_ADDRESSES = [
  '',
  'localhost',
  '203.0.113',
  '203.0.113.256',
  '203.0.113.0/33',
  '203.0.113.0/',
  '203.0.113.0/-1',
  '203.0.113.0/8/8',
  '203.0.113.0/1e1',
  '2001:db8::/129',
  'fe80::1%eth0',
  '[::1]',
  '10.0.0.1 ',
  '10.0.0.1,10.0.0.2',
  '10.0.0.*',
  5,
  null,
  [],
  ['10.0.0.1', 'nowhere'],
  [['10.0.0.1']],
  { ip: '10.0.0.1' },
]

const WRONG_KEYS = [
  '',
  'IP',
  'address',
  'header',
  'header:',
  'query:',
  'cookie:a',
  'ip ',
  5,
  null,
  true,
  [],
  ['ip', 'address'],
  ['ip', ['path']],
  { header: 'x' },
]

const WRONG_ANSWERS = [
  null,
  '/busy',
  5,
  [],
  { redirect: '' },
  { redirect: 5 },
  { redirect: '/busy', status: 301 },
  { redirect: '/busy', alert: 5 },
  { redirect: '/busy', headers: {} },
  { redirect: '/busy\r\nSet-Cookie: a=b' },
  { redirect: '/busy\n' },
  { redirect: '/bu\u0000sy' },
  { redirect: '/beschäftigt €' },
  { alert: 'Wait' },
  { status: 99 },
  { status: 100 },
  { status: 600 },
  { status: 429.5 },
  { status: '429' },
  { message: 5 },
  { body: 'Wait' },
  { headers: [] },
  { headers: { 'X-Why': 5 } },
  { headers: { 'X-Why': ['a'] } },
  { headers: { 'X-Why': 'a\r\nSet-Cookie: a=b' } },
  { headers: { 'X-Why': 'a\nb' } },
  { headers: { 'X-Why': 'a\u0000b' } },
  { headers: { 'X-Why': 'speed €' } },
  { headers: { 'X-Why: a\r\nSet-Cookie': 'a=b' } },
  { headers: { 'X Why': 'a' } },
  { headers: { '': 'a' } },
]

const WRONG_FLAGS = ['true', 1, null, 'yes']

const WRONG_STATUSES = [404, '404', [], ['404'], [199], [600], [404.5], [null], null, {}]

const WRONG_ACTIONS = [
  [],
  'create',
  ['creat'],
  ['create', 'destroy'],
  ['Create'],
  [null],
  {},
  null,
  () => ['create'],
]

const WRONG_RECORDS = [null, 5, 'x', [], ['x'], () => true]

describe('checkLimits refuses, naming rule and key', () => {
  test.each([
    ...tableOf(['rateLimits'], 'to', WRONG_COUNTS),
    ...tableOf(['rateLimits'], 'within', WRONG_TIMES),
    ...tableOf(['rateLimits'], 'only', WRONG_ACTIONS),
    ...tableOf(['rateLimits'], 'except', WRONG_ACTIONS),
    ...tableOf(['rateLimits'], 'by', [...WRONG_KEYS, 'body', 'body:', 'body:a..b', 'body:a.']),
    ...tableOf(['throttle', 'track', 'bans'], 'by', [
      ...WRONG_KEYS,
      'body:user.email',
      ['ip', 'body:user.email'],
    ]),
    ...tableOf(['rateLimits', 'throttle'], 'with', WRONG_ANSWERS),
    ...tableOf(['throttle', 'track'], 'limit', [...WRONG_COUNTS, () => 5]),
    ...tableOf(['throttle', 'track'], 'period', [...WRONG_TIMES, () => 60]),
    ...tableOf(['bans', 'track'], 'status', WRONG_STATUSES),
    ...tableOf(['bans'], 'maxretry', WRONG_COUNTS),
    ...tableOf(['bans'], 'findtime', WRONG_TIMES),
    ...tableOf(['bans'], 'bantime', WRONG_TIMES),
    ...tableOf(['bans'], 'mode', ['', 'Fail2ban', 'ban', null, true]),
    ...tableOf(FILTER_KINDS, 'method', WRONG_PATTERNS),
    ...tableOf(FILTER_KINDS, 'path', WRONG_PATTERNS),
    ...tableOf(FILTER_KINDS, 'host', WRONG_PATTERNS),
    ...tableOf(FILTER_KINDS, 'userAgent', WRONG_PATTERNS),
    ...tableOf(FILTER_KINDS, 'ip', WRONG_ADDRESSES),
    ...tableOf(FILTER_KINDS, 'header', WRONG_RECORDS),
    ...tableOf(FILTER_KINDS, 'query', WRONG_RECORDS),
    ...tableOf(
      FILTER_KINDS,
      'header',
      WRONG_PATTERNS.map(value => ({ 'X-A': value })),
    ),
    ...tableOf(
      FILTER_KINDS,
      'query',
      WRONG_PATTERNS.map(value => ({ a: value })),
    ),
    ...tableOf(['bans'], 'header', [{ '': 'x' }, JSON.parse('{"__proto__":5}')]),
    ...tableOf(FILTER_KINDS, 'match', [true, '() => true', null, {}]),
    ...tableOf(['rateLimits', 'blocklist', 'bans', 'throttle', 'track'], 'dryRun', WRONG_FLAGS),
    ...tableOf(RULE_KINDS, 'name', [5, null, [], {}]),
  ])('$kind with $key $value', ({ kind, key, value }) => {
    const mistakes = mistakesOfRule(kind, { [key]: value })
    expect(mistakes.length).toBeGreaterThan(0)
    for (const mistake of mistakes) {
      expect(mistake).toMatch(new RegExp(`^${kind}\\[0\\]: ${key}[. ]`))
      expect(mistake).not.toContain('\n')
    }
  })

  test.each(tableOf(RULE_KINDS, 'name', ['', 'x'.repeat(201)]))(
    '$kind with $key $value',
    ({ kind, key, value }) => {
      expect(mistakesOfRule(kind, { [key]: value })).toEqual([
        expect.stringMatching(new RegExp(`^${kind}\\[0\\] ".*": name must be a name`)),
      ])
    },
  )

  test.each([
    { kind: 'rateLimits' as const, key: 'to' },
    { kind: 'rateLimits' as const, key: 'within' },
    { kind: 'bans' as const, key: 'maxretry' },
    { kind: 'bans' as const, key: 'findtime' },
    { kind: 'bans' as const, key: 'bantime' },
    { kind: 'throttle' as const, key: 'limit' },
    { kind: 'throttle' as const, key: 'period' },
    { kind: 'track' as const, key: 'period' },
    { kind: 'track' as const, key: 'limit' },
  ])('$kind without $key', ({ kind, key }) => {
    const { [key]: _left, ...others } = RIGHT[kind]
    expect(mistakesOf({ [kind]: [others] })).toEqual([
      expect.stringMatching(new RegExp(`^${kind}\\[0\\]: ${key} is missing: it must be `)),
    ])
    expect(mistakesOfRule(kind, { [key]: undefined })).toEqual([
      expect.stringMatching(new RegExp(`^${kind}\\[0\\]: ${key} `)),
    ])
  })

  test.each(
    RULE_KINDS.flatMap(kind =>
      [null, [], ['x'], 'ip', '', 5, true, () => ({}), undefined].map(rule => ({ kind, rule })),
    ),
  )('$kind with the rule $rule', ({ kind, rule }) => {
    const mistakes = mistakesOf({ [kind]: [RIGHT[kind], rule] })
    expect(mistakes).toEqual([`${kind}[1]: must be an object`])
  })

  test.each(
    RULE_KINDS.flatMap(kind => [{}, null, 'x', 5, true, () => []].map(rules => ({ kind, rules }))),
  )('$kind that is $rules and no list', ({ kind, rules }) => {
    expect(mistakesOf({ [kind]: rules })).toEqual([`${kind}: must be a list of rules`])
  })

  test.each([null, undefined, [], [{}], 'x', 5, true, () => ({})])(
    'a file of %s, which is no object of rules',
    value => {
      expect(mistakesOf(value)).toEqual(['the file must hold an object of rules'])
    },
  )

  test('status together with fail2ban', () => {
    expect(mistakesOfRule('bans', { status: [404], mode: 'fail2ban' })).toEqual([
      'bans[0]: status cannot be given together with mode "fail2ban", which denies before the answer is known',
    ])
  })

  test.each(['safelist', 'blocklist', 'throttle', 'rateLimits'] as const)(
    'status on %s, which do not wait for an answer',
    kind => {
      expect(mistakesOfRule(kind, { status: [404] })).toEqual([
        expect.stringMatching(/status is not a key|unknown|no such/i),
      ])
    },
  )

  test('only together with except', () => {
    expect(mistakesOfRule('rateLimits', { only: ['list'], except: ['read'] })).toEqual([
      'rateLimits[0]: except cannot be given together with only',
    ])
  })
})

describe('checkLimits refuses unknown keys', () => {
  test.each([
    { key: 'ratelimits', hint: 'rateLimits' },
    { key: 'rateLimit', hint: 'rateLimits' },
    { key: 'throttles', hint: 'throttle' },
    { key: 'safe list', hint: 'safelist' },
    { key: 'ban', hint: 'bans' },
    { key: 'allow' },
    { key: '' },
    { key: 'toString' },
    { key: 'constructor' },
    { key: 'hasOwnProperty' },
    { key: '__proto__' },
    { key: 'two\nlines' },
  ])('at the top: $key', ({ key, hint }) => {
    const end = hint === undefined ? '' : `, did you mean "${hint}"?`
    const value = JSON.parse(`{${JSON.stringify(key)}: []}`)
    expect(mistakesOf(value)).toEqual([`unknown key ${JSON.stringify(key)}${end}`])
  })

  test.each([
    { kind: 'rateLimits' as const, key: 'onli', hint: 'only' },
    { kind: 'rateLimits' as const, key: 'excpet', hint: 'except' },
    { kind: 'rateLimits' as const, key: 'withn', hint: 'within' },
    { kind: 'rateLimits' as const, key: 'path' },
    { kind: 'rateLimits' as const, key: 'match' },
    { kind: 'safelist' as const, key: 'ips', hint: 'ip' },
    { kind: 'safelist' as const, key: 'dryRun' },
    { kind: 'safelist' as const, key: 'by' },
    { kind: 'blocklist' as const, key: 'useragent', hint: 'userAgent' },
    { kind: 'blocklist' as const, key: 'limit' },
    { kind: 'blocklist' as const, key: 'with' },
    { kind: 'bans' as const, key: 'maxRetry', hint: 'maxretry' },
    { kind: 'bans' as const, key: 'findTime', hint: 'findtime' },
    { kind: 'bans' as const, key: 'with' },
    { kind: 'throttle' as const, key: 'limmit', hint: 'limit' },
    { kind: 'throttle' as const, key: 'to' },
    { kind: 'track' as const, key: 'methods', hint: 'method' },
    { kind: 'track' as const, key: 'with' },
    { kind: 'track' as const, key: 'constructor' },
    { kind: 'track' as const, key: '__proto__' },
  ])('of $kind: $key', ({ kind, key, hint }) => {
    const rule = { ...RIGHT[kind], name: 'it' }
    Object.defineProperty(rule, key, { value: true, enumerable: true })
    const [mistake = '', ...others] = mistakesOf({ [kind]: [rule] })
    const start = `${kind}[0] "it": unknown key ${JSON.stringify(key)}`
    expect(others).toEqual([])
    expect(mistake.slice(0, start.length)).toBe(start)
    expect(mistake.slice(start.length)).toBe(hint === undefined ? '' : `, did you mean "${hint}"?`)
  })
})

describe('checkLimits refuses a name that is given twice', () => {
  test.each(RULE_KINDS)('within %s', kind => {
    const rule = (name?: string) => ({ ...RIGHT[kind], ...(name !== undefined && { name }) })
    expect(mistakesOf({ [kind]: [rule('a'), rule('b'), rule('a'), rule('a')] })).toEqual([
      `${kind}[2] "a": name is given twice in ${kind}`,
      `${kind}[3] "a": name is given twice in ${kind}`,
    ])
    expect(mistakesOf({ [kind]: [rule('a'), rule('A'), rule(), rule()] })).toEqual([])
  })

  test('but not across kinds', () => {
    const named = RULE_KINDS.map(kind => [kind, [{ ...RIGHT[kind], name: 'same' }]])
    expect(mistakesOf(Object.fromEntries(named))).toEqual([])
  })

  test.each([
    { names: [undefined, undefined, 'throttle[1]'], twice: [2] },
    { names: ['throttle[1]', undefined], twice: [1] },
    { names: ['throttle[0]', undefined], twice: [] },
    { names: ['throttle[2]', undefined], twice: [] },
  ])('by the place of a rule without one: $names', ({ names, twice }) => {
    const throttle = names.map(name => ({ ...RIGHT.throttle, ...(name && { name }) }))
    const mistakes = mistakesOf({ throttle })
    expect(mistakes).toHaveLength(twice.length)
    for (const [index, place] of twice.entries()) {
      expect(mistakes[index]).toContain(`throttle[${place}]`)
      expect(mistakes[index]).toContain('name is given twice in throttle')
    }
  })
})

test('checkLimits names rules without a name by their place', () => {
  const checked = checkLimits({ throttle: [RIGHT.throttle, { ...RIGHT.throttle, name: 'b' }] })
  expect(checked).toMatchObject({ limits: { throttle: [{ name: 'throttle[0]' }, { name: 'b' }] } })
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
})

test('checkLimits names the header or the parameter whose pattern is wrong', () => {
  const wrong = { 'X-A': ['a', { regex: '(' }], 'X-B': 'b', 'X-C': 5 }
  expect(mistakesOfRule('blocklist', { header: wrong })).toEqual([
    expect.stringMatching(
      /^blocklist\[0\]: header\.X-A must be a regular expression that compiles \(/,
    ),
    expect.stringMatching(/^blocklist\[0\]: header\.X-C must be a pattern /),
  ])
})

test('checkLimits keeps names and keys with line breaks on one line', () => {
  const mistakes = mistakesOf({
    blocklist: [{ name: 'two\nlines', 'a\nb': 1, header: { 'x\ny': 5 }, query: { 'x\ny': 5 } }],
  })
  expect(mistakes).toHaveLength(3)
  for (const mistake of mistakes) expect(mistake).not.toMatch(/[\r\n]/)
})

test.each([/agent/g, /agent/y, /agent/gy])(
  'checkLimits accepts %s, which matches the same each time',
  expression => {
    const checked = checkLimits({ blocklist: [{ userAgent: expression }] })
    if ('mistakes' in checked) throw new Error(checked.mistakes.join())
    const [rule] = checked.limits.blocklist
    if (rule === undefined) throw new Error('no rule')
    const request = { rawHeaders: ['User-Agent', 'agent'] } as unknown as Request
    expect([1, 2, 3, 4].map(() => rule.matches(request))).toEqual([true, true, true, true])
    expect(expression.lastIndex).toBe(0)
  },
)

test('checkLimits does not change its argument', () => {
  const frozen = Object.freeze({ throttle: Object.freeze([Object.freeze({ ...RIGHT.throttle })]) })
  expect(mistakesOf(frozen)).toEqual([])
  expect(frozen).toEqual({ throttle: [RIGHT.throttle] })
})

test.each(COUNTING_KINDS)('checkLimits refuses null as the value of any key in %s', kind => {
  for (const key of Object.keys(RIGHT[kind])) {
    expect(mistakesOfRule(kind, { [key]: null })).not.toEqual([])
  }
})
