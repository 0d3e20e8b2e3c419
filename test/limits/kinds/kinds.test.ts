import { inspect } from 'node:util'
import type { Request } from 'express'
import { describe, expect, test } from 'vitest'
import type { OperatorError } from '../../../src/errors.ts'
import { RULE_KINDS, type RuleKind } from '../../../src/limits/kinds/kinds.ts'
import { checkLimits } from '../../../src/limits/kinds/load-limits.ts'

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

function mistakesOf(value: unknown): readonly string[] {
  try {
    checkLimits(value)
    return []
  } catch (error) {
    return (error as OperatorError).problems
  }
}

/** The mistakes of one rule, which differs from the valid one of its kind by these keys. */
function mistakesOfRule(kind: RuleKind, keys: object): readonly string[] {
  return mistakesOf({ [kind]: [{ ...RIGHT[kind], ...keys }] })
}

const TIMES = ['30s', '10 minutes', '1 day', '365 days', '1 HOUR', '500ms', 0.5, 31_536_000]
const NO_TIMES = [
  ...['0s', '-1s', '1 fortnight', '366 days', '', 'soon', '1.5 hours', '1 minute 30'],
  ...[0, -1, 31_536_001, Number.NaN, Infinity, null, true, ['1 day'], 10n],
]

const NO_COUNTS = [0, -1, 1.5, '5', Number.NaN, Infinity, 2 ** 53, null, true, [5], 5n]

const PATTERNS = [
  ...['/users/*', '*', /^\/users/i, { regex: '^/users$', flags: 'imsu' }],
  ['/users', /x/, { regex: 'y' }],
]
const NO_PATTERNS = [
  ...[5, null, [], ['/a', null], [['/a']], {}, ['/a', { regex: '[' }], () => true],
  ...['g', 'y', 'ii', 'x'].map(flags => ({ regex: 'a', flags })),
  ...[{ regex: '(' }, { regex: 5 }, { regex: 'a', flag: 'i' }, { regex: '\\p{', flags: 'u' }],
]
const NO_RECORDS = [null, 5, 'x', ['x'], () => true, { '': 'x' }, JSON.parse('{"__proto__":5}')]

const ADDRESSES = ['0.0.0.0/0', '203.0.113.7/32', '::/0', '2001:db8::/128', ['::ffff:10.0.0.1']]
const NO_ADDRESSES = [
  ...['', 'localhost', '203.0.113', '203.0.113.256', '203.0.113.0/33', '203.0.113.0/'],
  ...['203.0.113.0/-1', '203.0.113.0/1e1', '2001:db8::/129', 'fe80::1%eth0', '[::1]', '10.0.0.1 '],
  ...['10.0.0.1,10.0.0.2', '10.0.0.*', 5, null, [], ['10.0.0.1', 'nowhere'], [['10.0.0.1']]],
]

const KEYS = ['ip', 'domain', 'host', 'path', 'header:X-Api-Key', 'query:email', () => 'ann']
const LISTS_OF_KEYS = [
  ['ip', 'path'],
  ['ip', () => 'ann'],
]
const BODY_KEYS = ['body:user.email', 'body:user', ['ip', 'body:user.email']]
const NO_KEYS = [
  ...['', 'IP', 'address', 'header', 'header:', 'query:', 'cookie:a', 'ip ', 5, null, []],
  ...[['ip', 'address'], ['ip', ['path']], { header: 'x' }],
]
const NO_BODY_KEYS = ['body', 'body:', 'body:a..b', 'body:a.']

const ANSWERS = [
  ...[{ redirect: 'https://example.com/busy', alert: 'Wait' }, {}, { status: 503 }],
  ...[{ message: 'Wait' }, { headers: { 'X-Why': 'speed' } }, () => {}],
]
const NO_ANSWERS = [
  ...[null, '/busy', [], { alert: 'Wait' }, { message: 5 }, { body: 'Wait' }, { headers: [] }],
  ...['', 5, '/busy\r\nSet-Cookie: a=b', '/busy\n', '/bu\0sy', '/beschäftigt €', '/a b'].map(
    redirect => ({ redirect }),
  ),
  ...[{ status: 301 }, { alert: 5 }, { headers: {} }].map(keys => ({ redirect: '/busy', ...keys })),
  ...[99, 100, 600, 429.5, '429'].map(status => ({ status })),
  ...[5, ['a'], 'a\r\nSet-Cookie: a=b', 'a\0b', '\u007f', 'speed €'].map(value => ({
    headers: { 'X-Why': value },
  })),
  ...['X-Why: a\r\nSet-Cookie', 'X Why', '', 'Connection', 'x-request-id'].map(name => ({
    headers: { [name]: 'a' },
  })),
]

const STATUSES = [[200], [401, 404], [599]]
const NO_STATUSES = [404, '404', [], ['404'], [199], [600], [404.5], [null], null]

const ACTIONS = [['create'], ['list', 'read', 'create', 'update', 'delete', 'verify']]
const NO_ACTIONS = [[], 'create', ['creat'], ['create', 'destroy'], ['Create'], [null], null]

const byName = (values: Values) => values.map(value => ({ 'X-A': value }))

type Values = readonly unknown[]

test.each<[keys: string, kinds: readonly RuleKind[], right: Values, wrong: Values]>([
  ['to', ['rateLimits'], [1, 1000, () => 5], NO_COUNTS],
  ['within', ['rateLimits'], [...TIMES, () => 60], NO_TIMES],
  ['only', ['rateLimits'], ACTIONS, NO_ACTIONS],
  ['except', ['rateLimits'], ACTIONS, NO_ACTIONS],
  ['by', ['rateLimits'], BODY_KEYS, [...NO_KEYS, ...NO_BODY_KEYS]],
  ['by', ['throttle', 'track', 'bans'], [...KEYS, ...LISTS_OF_KEYS], [...NO_KEYS, ...BODY_KEYS]],
  ['with', ['rateLimits', 'throttle'], ANSWERS, NO_ANSWERS],
  ['limit', ['throttle', 'track'], [1, 1000], [...NO_COUNTS, () => 5]],
  ['period', ['throttle', 'track'], TIMES, [...NO_TIMES, () => 60]],
  ['status', ['bans', 'track'], STATUSES, NO_STATUSES],
  ['maxretry', ['bans'], [1], NO_COUNTS],
  ['findtime', ['bans'], TIMES, NO_TIMES],
  ['bantime', ['bans'], TIMES, NO_TIMES],
  ['mode', ['bans'], ['allow2ban', 'fail2ban'], ['', 'Fail2ban', 'ban', null, true]],
  ['method', FILTER_KINDS, [['GET', 'post']], NO_PATTERNS],
  ['path', FILTER_KINDS, PATTERNS, NO_PATTERNS],
  ['host', FILTER_KINDS, PATTERNS, NO_PATTERNS],
  ['userAgent', FILTER_KINDS, PATTERNS, NO_PATTERNS],
  ['ip', FILTER_KINDS, ADDRESSES, NO_ADDRESSES],
  ['header', FILTER_KINDS, byName(PATTERNS), [...NO_RECORDS, ...byName(NO_PATTERNS)]],
  ['query', FILTER_KINDS, byName(PATTERNS), [...NO_RECORDS, ...byName(NO_PATTERNS)]],
  ['match', FILTER_KINDS, [() => true], [true, '() => true', null, {}]],
  ['dryRun', ['rateLimits', 'blocklist', 'bans', 'throttle', 'track'], [true, false], ['true', 1]],
  ['name', RULE_KINDS, ['a', 'x'.repeat(200), 'Grüße "für" \\'], [5, null, [], {}]],
])(
  'checkLimits takes and refuses values of %s on %j, naming rule and key',
  (key, kinds, right, wrong) => {
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
  },
)

test.each([/agent/g, /agent/gy])('%s matches the same each time', expression => {
  const [rule] = checkLimits({ blocklist: [{ userAgent: expression }] }).blocklist
  const request = { rawHeaders: ['User-Agent', 'agent'] } as unknown as Request
  expect([1, 2, 3, 4].map(() => rule?.matches(request))).toEqual([true, true, true, true])
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
    }
  })

  test.each(RULE_KINDS)('in %s: no list, no object, a name too short or too long', kind => {
    for (const rules of [{}, null, 'x', () => []]) {
      expect(mistakesOf({ [kind]: rules })).toEqual([`${kind}: must be a list of rules`])
    }
    for (const rule of [null, ['x'], 'ip', 5, () => ({}), undefined]) {
      expect(mistakesOf({ [kind]: [RIGHT[kind], rule] })).toEqual([`${kind}[1]: must be an object`])
    }
    for (const name of ['', 'x'.repeat(201)]) {
      const mistake = expect.stringMatching(`^${kind}\\[0\\] "x*": name must be a name`)
      expect(mistakesOfRule(kind, { name })).toEqual([mistake])
    }
  })

  test.each<[key: string, hint?: string]>([
    ['ratelimits', 'rateLimits'],
    ['safe list', 'safelist'],
    ['ban', 'bans'],
    ...['allow', '', 'toString', '__proto__', 'two\nlines'].map((key): [string] => [key]),
  ])('the unknown key %j at the top', (key, hint) => {
    const end = hint === undefined ? '' : `, did you mean "${hint}"?`
    const value = JSON.parse(`{${JSON.stringify(key)}: []}`)
    expect(mistakesOf(value)).toEqual([`unknown key ${JSON.stringify(key)}${end}`])
  })

  test.each<[RuleKind, key: string, hint?: string]>([
    ['rateLimits', 'excpet', 'except'],
    ['rateLimits', 'path'],
    ['safelist', 'dryRun'],
    ['blocklist', 'useragent', 'userAgent'],
    ['bans', 'maxRetry', 'maxretry'],
    ['bans', 'with'],
    ['throttle', 'status'],
    ['track', 'constructor'],
    ['track', '__proto__'],
  ])('in %s the unknown key %s', (kind, key, hint) => {
    const rule = { ...RIGHT[kind], name: 'it' }
    Object.defineProperty(rule, key, { value: true, enumerable: true })
    const end = hint === undefined ? '' : `, did you mean "${hint}"?`
    const mistake = `${kind}[0] "it": unknown key ${JSON.stringify(key)}${end}`
    expect(mistakesOf({ [kind]: [rule] })).toEqual([mistake])
  })

  test('a name that is given twice in one kind, but not in two', () => {
    for (const kind of RULE_KINDS) {
      const rules = ['a', 'A', 'a', 'a'].map(name => ({ ...RIGHT[kind], name }))
      expect(mistakesOf({ [kind]: [...rules, RIGHT[kind], RIGHT[kind]] })).toEqual([
        `${kind}[2] "a": name is given twice in ${kind}`,
        `${kind}[3] "a": name is given twice in ${kind}`,
      ])
    }
    const named = RULE_KINDS.map(kind => [kind, [{ ...RIGHT[kind], name: 'same' }]])
    expect(mistakesOf(Object.fromEntries(named))).toEqual([])
  })
})

test('checkLimits reports all mistakes at once, one line each', () => {
  const mistakes = mistakesOf({
    trottle: [],
    rateLimits: [
      { name: 'sign-ups', to: 0, within: '0s', only: ['list'], except: ['read'], onli: [] },
    ],
    safelist: [{ ip: 'nowhere' }],
    blocklist: [{ name: 'two\nlines', 'a\nb': 1, header: { 'X-A': [{ regex: '(' }], 'x\ny': 5 } }],
    throttle: [{ name: 'posts', limit: 10, period: '1 fortnight' }],
    bans: [
      { ...RIGHT.bans, name: 'login', mode: 'jail' },
      { ...RIGHT.bans, status: [404], mode: 'fail2ban' },
    ],
  })
  expect(mistakes.toSorted()).toEqual([
    'bans[0] "login": mode must be "allow2ban" or "fail2ban"',
    'bans[1]: status cannot be given together with mode "fail2ban", which denies before the answer is known',
    expect.stringMatching(
      /^blocklist\[0\] "two\\nlines": header\.X-A must be a regular expression that compiles \(/,
    ),
    expect.stringMatching(/^blocklist\[0\] "two\\nlines": header\.x\\ny must be a pattern /),
    'blocklist[0] "two\\nlines": unknown key "a\\nb"',
    'rateLimits[0] "sign-ups": except cannot be given together with only',
    'rateLimits[0] "sign-ups": to must be a whole number from 1, or a function',
    'rateLimits[0] "sign-ups": unknown key "onli", did you mean "only"?',
    'rateLimits[0] "sign-ups": within must be a time such as "1 minute", or a function',
    'safelist[0]: ip must be an address or a range such as "203.0.113.0/24", or a list of them',
    'throttle[0] "posts": period must be a time such as "1 day", more than 0 and at most a year',
    'unknown key "trottle", did you mean "throttle"?',
  ])
})
