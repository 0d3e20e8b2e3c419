import { describe, expect, test } from 'vitest'
import type { FilterRule } from '../../src/limits/rules/limits-file.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

/** A request as it is sent: line, then headers. */
type Sent = readonly [line: string, ...headers: string[]]

const BEHIND_PROXY = { TRUST_PROXY: '1' }

function bytesOf([line, ...headers]: Sent): Buffer {
  const all = headers.some(header => /^host:/i.test(header)) ? headers : ['Host: a', ...headers]
  return Buffer.from(
    `${line} HTTP/1.1\r\n${all.map(header => `${header}\r\n`).join('')}\r\n`,
    'latin1',
  )
}

/** Whether the only rule of a blocklist matches, for each request. */
async function openMatcher(rule: FilterRule, env = {}) {
  const app = await openTestApp({ limits: { blocklist: [rule] }, env })
  return {
    ...app,
    matches: async (...sent: Sent) => {
      const exchange = sendRaw(app.port, bytesOf(sent))
      // The answer to HEAD has the length of a body that never comes, and so looks unfinished.
      if (sent[0].startsWith('HEAD')) {
        const status = new Promise<string>(resolve => {
          exchange.socket.once('data', chunk => resolve(String(chunk).slice(9, 12)))
        })
        const isBlocked = (await status) === '403'
        exchange.socket.destroy()
        return isBlocked
      }
      const [answer] = await exchange.answers(1)
      exchange.socket.destroy()
      return answer?.status === 403
    },
  }
}

interface Row {
  readonly rule: FilterRule
  readonly hits: readonly Sent[]
  readonly misses: readonly Sent[]
  readonly env?: Readonly<Record<string, string>>
}

const get = (path: string): Sent => [`GET ${path}`]
const having = (...headers: string[]): Sent => ['GET /users', ...headers]
const from = (address: string): Sent => having(`X-Forwarded-For: ${address}`)

const ROWS: readonly (readonly [claim: string, row: Row])[] = [
  [
    'no key',
    { rule: {}, hits: [get('/'), get('/users/%zz'), ['OPTIONS *'], ['PROPFIND /x']], misses: [] },
  ],
  [
    'method GET, which includes HEAD',
    {
      rule: { method: 'GET' },
      hits: [get('/x'), ['HEAD /x']],
      misses: [['POST /x'], ['OPTIONS /x']],
    },
  ],
  [
    'method in lower case',
    { rule: { method: 'post' }, hits: [['POST /x']], misses: [['PUT /x'], get('/x'), ['HEAD /x']] },
  ],
  ['method HEAD alone', { rule: { method: 'HEAD' }, hits: [['HEAD /x']], misses: [get('/x')] }],
  [
    'a list of methods',
    { rule: { method: ['put', 'PATCH'] }, hits: [['PUT /x'], ['PATCH /x']], misses: [['POST /x']] },
  ],
  [
    'method by a star',
    {
      rule: { method: 'P*' },
      hits: [['PUT /x'], ['PROPFIND /x']],
      misses: [get('/x'), ['HEAD /x']],
    },
  ],
  [
    'method by an expression',
    {
      rule: { method: { regex: '^(get|put)$', flags: 'i' } },
      hits: [get('/x'), ['HEAD /x'], ['PUT /x']],
      misses: [['POST /x']],
    },
  ],
  [
    'a path that is exact',
    {
      rule: { path: '/login' },
      hits: [get('/login'), get('/login?a=/b'), get('/login#x'), get('/login?')],
      misses: [get('/Login'), get('/login/'), get('/login2'), get('/a/login'), get('/?/login')],
    },
  ],
  [
    'a path in other spellings',
    {
      rule: { path: '/login' },
      hits: [
        get('//login'),
        get('///login'),
        get('/%6Cogin'),
        get('/%6cogin'),
        get('/%2Flogin'),
        get('/%2f%2Flogin'),
        get('/%6c%6f%67%69%6e'),
        get('http://other.example/login'),
        get('HTTP://other.example:80//login?x'),
      ],
      misses: [
        get('/%256Cogin'),
        get('/login%2F'),
        get('/login%00'),
        get('/login%20'),
        get('/%zz//login'),
      ],
    },
  ],
  [
    'a path that is not ASCII',
    { rule: { path: '/é/€' }, hits: [get('/%C3%A9/%e2%82%ac')], misses: [get('/e/€')] },
  ],
  [
    'a path as sent where it cannot be decoded',
    {
      rule: { path: '/%6Cogin/%zz' },
      hits: [get('/%6Cogin/%zz'), get('/%6Cogin/%zz?q')],
      misses: [get('/login/%zz'), get('/%6Cogin')],
    },
  ],
  [
    'a path with a star at its end',
    {
      rule: { path: '/wp-admin*' },
      hits: [get('/wp-admin'), get('/wp-admin/'), get('/wp-admin/a/b.php'), get('/wp-adminx')],
      misses: [get('/wp-admi'), get('/x/wp-admin'), get('/WP-admin')],
    },
  ],
  [
    'a path with several stars',
    {
      rule: { path: '/a*b*/c' },
      hits: [get('/ab/c'), get('/axxbxx/c'), get('/a/b/c/c'), get('/abb/c/b/c')],
      misses: [get('/a/c'), get('/ab/cc'), get('/b/c'), get('/ab/c/')],
    },
  ],
  [
    'a path whose beginning and end may not overlap',
    {
      rule: { path: '/ab*ba' },
      hits: [get('/abba'), get('/ab-ba')],
      misses: [get('/aba'), get('/ab')],
    },
  ],
  [
    'a path that is a star',
    { rule: { path: '*' }, hits: [get('/'), get('/%zz'), ['OPTIONS *']], misses: [] },
  ],
  [
    'a path with two stars side by side',
    { rule: { path: '/a**b' }, hits: [get('/ab'), get('/a/x/b')], misses: [get('/a'), get('/b')] },
  ],
  [
    'a path whose special characters match themselves',
    {
      rule: { path: '/a.b+(c)?|^$[d]\\w*' },
      hits: [get('/a.b+(c)%3F|^$[d]%5Cw'), get('/a.b+(c)%3f%7C%5E$%5Bd%5D%5Cwx')],
      misses: [get('/axb'), get('/a.bb(c)'), get('/')],
    },
  ],
  [
    'a list of paths',
    {
      rule: { path: ['/a', '/b*', { regex: '^/c\\d$' }] },
      hits: [get('/a'), get('/bb'), get('/c1')],
      misses: [get('/aa'), get('/c12')],
    },
  ],
  [
    'a path by an expression, which may match anywhere',
    {
      rule: { path: { regex: 'ADMIN', flags: 'i' } },
      hits: [get('/x/admin/y'), get('/aDmIn')],
      misses: [get('/adm/in'), get('/?admin')],
    },
  ],
  [
    'a path by an expression, which is case-sensitive and sees the decoded path',
    {
      rule: { path: { regex: '^/a b$' } },
      hits: [get('/a%20b')],
      misses: [get('/A%20b'), get('/a+b')],
    },
  ],
  [
    'an address',
    {
      rule: { ip: '192.0.2.1' },
      env: BEHIND_PROXY,
      hits: [from('192.0.2.1')],
      misses: [from('192.0.2.10')],
    },
  ],
  ['the address of the connection', { rule: { ip: '127.0.0.0/8' }, hits: [get('/')], misses: [] }],
  [
    'the address of the connection, whatever X-Forwarded-For says',
    { rule: { ip: '192.0.2.1' }, hits: [], misses: [from('192.0.2.1')] },
  ],
  [
    'a range',
    {
      rule: { ip: '203.0.113.128/25' },
      env: BEHIND_PROXY,
      hits: [from('203.0.113.128'), from('203.0.113.255'), from('::ffff:203.0.113.200')],
      misses: [from('203.0.113.127'), from('203.0.114.0'), from('2001:db8::1')],
    },
  ],
  [
    'an IPv6 range, in any spelling',
    {
      rule: { ip: '2001:DB8::/33' },
      env: BEHIND_PROXY,
      hits: [from('2001:db8::1'), from('2001:db8:7fff:ffff::'), from('2001:0db8:0:0:0:0:0:1')],
      misses: [from('2001:db8:8000::'), from('2001:db9::1'), from('203.0.113.1')],
    },
  ],
  [
    'an IPv6 address',
    {
      rule: { ip: '2001:db8::1' },
      env: BEHIND_PROXY,
      hits: [from('2001:0DB8::0:1')],
      misses: [from('2001:db8::2')],
    },
  ],
  [
    'an IPv4 address that is mapped into IPv6',
    {
      rule: { ip: '::ffff:203.0.113.7' },
      env: BEHIND_PROXY,
      hits: [from('203.0.113.7'), from('::ffff:203.0.113.7'), from('::ffff:cb00:7107')],
      misses: [from('203.0.113.8'), from('::203.0.113.7')],
    },
  ],
  [
    'a link-local client that names its interface',
    {
      rule: { ip: 'fe80::/10' },
      env: BEHIND_PROXY,
      hits: [from('fe80::1%eth0')],
      misses: [from('fec0::1')],
    },
  ],
  [
    'all of IPv4, but not IPv6',
    {
      rule: { ip: '0.0.0.0/0' },
      env: BEHIND_PROXY,
      hits: [from('192.0.2.1')],
      misses: [from('2001:db8::1')],
    },
  ],
  [
    'a list of addresses, which a client without an address does not match',
    {
      rule: { ip: ['192.0.2.1', '2001:db8::/32'] },
      env: BEHIND_PROXY,
      hits: [from('192.0.2.1'), from('2001:db8::1')],
      misses: [from('192.0.2.2'), from('unknown'), from('192.0.2.1, 192.0.2.9')],
    },
  ],
  [
    'host, without port, case and final dot',
    {
      rule: { host: 'Shop.Example' },
      hits: [
        having('Host: shop.example'),
        having('Host: SHOP.EXAMPLE:8080'),
        having('Host: shop.example.'),
        having('Host: shop.example.:80'),
        ['GET http://shop.example:3000/x', 'Host: other.example'],
        ['GET http://me@SHOP.example', 'Host: other.example'],
      ],
      misses: [
        having('Host: www.shop.example'),
        having('Host: shop.example.com'),
        having('Host: other.example', 'X-Forwarded-Host: shop.example'),
        ['GET http://other.example/', 'Host: shop.example'],
      ],
    },
  ],
  [
    'host as a trusted proxy forwards it',
    {
      rule: { host: '*.example' },
      env: BEHIND_PROXY,
      hits: [having('Host: inner', 'X-Forwarded-Host: A.example:443'), having('Host: b.example')],
      misses: [having('Host: b.example', 'X-Forwarded-Host: inner'), having('Host: example')],
    },
  ],
  [
    'an IPv6 host',
    {
      rule: { host: '[::1]' },
      hits: [having('Host: [::1]:3000'), having('Host: [::1]')],
      misses: [having('Host: ::1')],
    },
  ],
  [
    'a host that is empty, which counts as absent',
    { rule: { host: '*' }, hits: [having('Host: a')], misses: [having('Host:')] },
  ],
  [
    'userAgent by an expression',
    {
      rule: { userAgent: { regex: 'sqlmap|nikto', flags: 'i' } },
      hits: [having('User-Agent: SQLmap/1'), having('user-agent: x nikto')],
      misses: [having('User-Agent: curl'), having('X-User-Agent: nikto'), get('/nikto')],
    },
  ],
  [
    'userAgent exactly',
    {
      rule: { userAgent: 'SpecialAgent' },
      hits: [having('User-Agent: SpecialAgent'), having('User-Agent:  SpecialAgent ')],
      misses: [having('User-Agent: specialagent'), having('User-Agent: SpecialAgent/1')],
    },
  ],
  [
    'any userAgent, but not a missing one',
    {
      rule: { userAgent: '*' },
      hits: [having('User-Agent: x'), having('User-Agent:')],
      misses: [get('/users')],
    },
  ],
  [
    'userAgent that was sent twice',
    {
      rule: { userAgent: '*nikto*' },
      hits: [
        having('User-Agent: nikto', 'User-Agent: nice'),
        having('User-Agent: nice', 'User-Agent: nikto'),
      ],
      misses: [having('User-Agent: nice', 'User-Agent: curl')],
    },
  ],
  [
    'a header, whose name is case-insensitive',
    {
      rule: { header: { 'X-Bad': 'Yes' } },
      hits: [having('x-bad: Yes'), having('X-BAD:Yes  ')],
      misses: [having('X-Bad: yes'), having('X-Bad: Yes!'), having('X-Bad2: Yes'), get('/users')],
    },
  ],
  [
    'any value of a header, but not a missing one',
    {
      rule: { header: { 'X-Bad': '*' } },
      hits: [having('X-Bad: 1'), having('X-Bad:')],
      misses: [get('/?X-Bad=1')],
    },
  ],
  [
    'a header that was sent several times, by any of its values',
    {
      rule: { header: { 'X-Bad': 'b' } },
      hits: [having('X-Bad: a', 'X-Bad: b'), having('x-bad: b', 'X-Bad: c', 'X-Bad: d')],
      misses: [having('X-Bad: a', 'X-Bad: c')],
    },
  ],
  ...['Content-Type', 'Authorization', 'Referer', 'From'].map(
    name =>
      [
        `${name}, of which Node keeps only the first`,
        {
          rule: { header: { [name]: 'bad' } },
          hits: [having(`${name}: bad`, `${name}: good`), having(`${name}: good`, `${name}: bad`)],
          misses: [having(`${name}: good`)],
        },
      ] as const,
  ),
  ...['__proto__', 'constructor', 'hasOwnProperty'].map(
    name =>
      [
        `a header beside one that is named ${name}`,
        {
          rule: { header: { 'X-Bad': '*' } },
          hits: [having(`${name}: 1`, 'X-Bad: 1'), having('X-Bad: 1', `${name}: 1`, `${name}: 2`)],
          misses: [having(`${name}: 1`)],
        },
      ] as const,
  ),
  [
    'a header with the name of a property that every object inherits',
    {
      rule: { header: { constructor: '1' } },
      hits: [having('constructor: 1')],
      misses: [get('/users')],
    },
  ],
  [
    'several headers, which must all be present',
    {
      rule: { header: { A: '1', B: ['2', '3'] } },
      hits: [having('A: 1', 'B: 3')],
      misses: [having('A: 1'), having('B: 2'), having('A: 1', 'B: 1')],
    },
  ],
  [
    'a query parameter',
    {
      rule: { query: { q: 'a b' } },
      hits: [get('/?q=a+b'), get('/x?z&%71=a%20b'), get('/?q=1&q=a+b'), get('/users?q=a%20b&q=2')],
      misses: [
        get('/?q=a'),
        get('/?Q=a+b'),
        get('/?q=a%2Bb'),
        get('/?qq=a+b'),
        get('/q=a+b'),
        get('/users'),
      ],
    },
  ],
  [
    'any value of a query parameter, but not a missing one',
    {
      rule: { query: { cmd: '*' } },
      hits: [get('/?cmd=1'), get('/?cmd='), get('/?cmd'), get('/?a&&cmd=/x?y')],
      misses: [get('/?'), get('/?command=1'), get('/cmd'), get('/?a=cmd')],
    },
  ],
  [
    'any value of a query parameter, also one that cannot be decoded',
    {
      rule: { query: { cmd: '*' } },
      hits: [get('/users/1?cmd=rm%zz')],
      misses: [get('/users/1?cm%zz=1')],
    },
  ],
  [
    'a query parameter by an expression over lines',
    {
      rule: { query: { q: { regex: '^drop.*table$', flags: 'is' } } },
      hits: [get('/?q=DROP%0Atable')],
      misses: [get('/?q=x%0ADROP%20table')],
    },
  ],
  [
    'several keys, which must all match',
    {
      rule: {
        method: 'POST',
        path: '/login',
        header: { 'X-A': '1' },
        query: { b: '2' },
        host: 'h',
      },
      hits: [['POST /login?b=2', 'Host: h', 'X-A: 1']],
      misses: [
        ['GET /login?b=2', 'Host: h', 'X-A: 1'],
        ['POST /logout?b=2', 'Host: h', 'X-A: 1'],
        ['POST /login?b=3', 'Host: h', 'X-A: 1'],
        ['POST /login?b=2', 'Host: i', 'X-A: 1'],
        ['POST /login?b=2', 'Host: h'],
      ],
    },
  ],
]

test.each(ROWS)('a rule matches by %s', async (_claim, { rule, hits, misses, env }) => {
  const { matches, logLines } = await openMatcher(rule, env)
  for (const sent of hits) expect([sent, await matches(...sent)]).toEqual([sent, true])
  for (const sent of misses) expect([sent, await matches(...sent)]).toEqual([sent, false])
  expect(logLines.filter(({ level }) => Number(level) >= 50)).toEqual([])
})

describe('every path that the router matches with a route', () => {
  const TAILS = [
    '',
    '?',
    '?a=b',
    '#',
    '#/x',
    '#?a',
    '?a#b',
    '?//',
    '?%zz',
    '#%zz',
    '\\',
    ';',
    ';a=b',
  ]
  const MORE_TAILS = [
    '/',
    '//',
    '/.',
    '/..',
    '%2F',
    '%2f',
    '%00',
    '%20',
    '.',
    '.json',
    '\t',
    '\xa0',
  ]
  const HEADS = [
    '',
    '/',
    '//',
    '/.',
    '/..',
    '/%2e',
    '\\',
    '/\\',
    'http://h',
    'HTTP://H:1',
    'x://u@h/',
  ]
  const MORE_HEADS = ['http://h/', 'http:', 'https://h?', 'http://h#', '//h', '%2f', '.']
  const USERS = [
    '/users',
    '/%75sers',
    '/user%73',
    '/Users',
    '/us%65rs',
    '/users%20',
    '/us\\ers',
    '/use"rs',
  ]
  const IDS = [
    '1',
    '%31',
    '%2531',
    '01',
    '+1',
    '1%20',
    '%EF%BC%91',
    '1;',
    "'1",
    '1\xa0',
    '1%0a',
    '{1}',
  ]

  const heads = [...HEADS, ...MORE_HEADS]
  const tails = [...TAILS, ...MORE_TAILS]
  const collections = [
    ...heads.flatMap(head => tails.map(tail => `${head}/users${tail}`)),
    ...USERS.flatMap(path => tails.map(tail => path + tail)),
  ]
  const members = [
    ...heads.flatMap(head => IDS.map(id => `${head}/users/${id}`)),
    ...['/users/', '/users//', '/users%2f', '/users\\', '/%75sers/'].flatMap(path =>
      IDS.flatMap(id => ['', '?a', '#b', '/', '%2F', '\\'].map(tail => path + id + tail)),
    ),
  ]

  /** The route of each target, as the log has it, and the answer. */
  async function routed(targets: readonly string[], limits?: object) {
    const app = await openTestApp(limits === undefined ? {} : { limits })
    await app.http.post('/users').send(newUserBody()).expect(201)
    return Promise.all(
      targets.map(async (target, index) => {
        const id = `target-${index}`
        const sent: Sent = [`GET ${target}`, 'Connection: close', `X-Request-Id: ${id}`]
        const [answer] = await sendRaw(app.port, bytesOf(sent)).ended
        const { status, headers, body } = answer as RawAnswer
        // What Node cannot parse is not a request yet, and has no id of its own.
        const isRequest = headers['x-request-id'] === id
        const line = isRequest
          ? await until(() => app.logLines.find(({ requestId }) => requestId === id))
          : undefined
        return { target, status, body, route: line?.route }
      }),
    )
  }

  test.each<[string, readonly string[], RegExp]>([
    ['/users', collections, /^\/users$/],
    ['/users/*', members, /^\/users\/\{id\}$/],
  ])('%s is that path for the filter too, in every spelling', async (path, targets, route) => {
    const taken = (await routed(targets)).filter(answer => route.test(String(answer.route)))
    expect(taken.length).toBeGreaterThan(30)
    const takenTargets = taken.map(({ target }) => target)
    const blocked = await routed(takenTargets, { blocklist: [{ method: 'GET', path }] })
    expect(blocked.filter(({ status }) => status !== 403)).toEqual([])
  })

  test('/users/1 is the user 1 for the filter too, in every spelling', async () => {
    const taken = (await routed(members)).filter(({ body }) => body.startsWith('{"id":1,'))
    expect(taken.length).toBeGreaterThan(10)
    const takenTargets = taken.map(({ target }) => target)
    const blocked = await routed(takenTargets, {
      blocklist: [{ method: 'GET', path: '/users/1' }],
    })
    expect(blocked.filter(({ status }) => status !== 403)).toEqual([])
  })
})

describe('a pattern made to take forever', () => {
  const LONG = 'a'.repeat(10_000)

  test.each<[string, FilterRule, Sent, boolean]>([
    ['many stars against a long path', { path: '*a*a*a*a*a*a*b' }, get(`/${LONG}`), false],
    ['many stars against a path that has them', { path: '*a*a*a*a*a*a*b' }, get(`/${LONG}b`), true],
    ['nothing but stars', { path: '*'.repeat(200) }, get(`/${LONG}`), true],
    [
      'a long middle',
      { path: `*${'a'.repeat(500)}b*${'a'.repeat(500)}b*` },
      get(`/${LONG}`),
      false,
    ],
    [
      'a long header',
      { header: { 'X-A': '*x*y*z*x*y*z*!' } },
      having(`X-A: ${'xyz'.repeat(3000)}`),
      false,
    ],
    ['a long query', { query: { q: '*a*b*a*b*c' } }, get(`/?q=${'ab'.repeat(5000)}`), false],
    ['many slashes', { path: '/x' }, get(`${'/'.repeat(10_000)}x`), true],
    ['many escapes', { path: '/*b' }, get(`/${'%61'.repeat(3000)}b`), true],
  ])('does not delay the answer: %s', async (_claim, rule, sent, expected) => {
    const { matches } = await openMatcher(rule)
    expect(await matches(...sent)).toBe(expected)
  })
})
