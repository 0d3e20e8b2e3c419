import { once } from 'node:events'
import { expect, test } from 'vitest'
import type { FilterRule } from '../../src/limits/rules/limits-file.ts'
import { newUserBody } from '../support/builders.ts'
import { shareLimitedApp } from '../support/limited-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

/** A request as it is sent: line, then headers. */
type Sent = readonly [line: string, ...headers: string[]]

function bytesOf([line, ...headers]: Sent): Buffer {
  const all = headers.some(header => /^host:/i.test(header)) ? headers : ['Host: a', ...headers]
  return Buffer.from(
    `${line} HTTP/1.1\r\n${all.map(header => `${header}\r\n`).join('')}\r\n`,
    'latin1',
  )
}

const lines = (...all: string[]): Sent[] => all.map(line => [line])

/** A GET of each of these targets, which stand between spaces. */
const gets = (targets: string): Sent[] => lines(...targets.split(' ').map(path => `GET ${path}`))

/** A request with these headers. */
const having = (...headers: string[]): Sent => ['GET /users', ...headers]

/** A request for each of these values of a header. */
const header = (name: string, ...values: string[]) =>
  values.map(value => having(`${name}:${value}`))

const from = (...clients: string[]) => header('X-Forwarded-For', ...clients)
const agent = (...agents: string[]) => header('User-Agent', ...agents)
const host = (...hosts: string[]) => header('Host', ...hosts)

interface Row {
  readonly hits?: readonly Sent[]
  readonly misses?: readonly Sent[]
  /** Asks the service that trusts no proxy. */
  readonly isDirect?: boolean
}

const LONG = 'a'.repeat(10_000)
const LONG_MIDDLE = `*${'a'.repeat(500)}b*${'a'.repeat(500)}b*`

type Case = readonly [rule: FilterRule, claim: string, row: Row]

const row = (...parts: Case): Case => parts

const ROWS: readonly Case[] = [
  row({}, 'no key', { hits: lines('GET /', 'GET /users/%zz', 'OPTIONS *', 'PROPFIND /x') }),
  row({ method: 'GET' }, 'method GET, which includes HEAD', {
    hits: lines('GET /x', 'HEAD /x'),
    misses: lines('POST /x', 'OPTIONS /x'),
  }),
  row({ method: 'post' }, 'method in lower case', {
    hits: lines('POST /x'),
    misses: lines('PUT /x', 'GET /x', 'HEAD /x'),
  }),
  row({ method: 'HEAD' }, 'method HEAD alone', { hits: lines('HEAD /x'), misses: lines('GET /x') }),
  row({ method: ['put', 'PATCH'] }, 'a list of methods', {
    hits: lines('PUT /x', 'PATCH /x'),
    misses: lines('POST /x'),
  }),
  row({ method: 'P*' }, 'method by a star', {
    hits: lines('PUT /x', 'PROPFIND /x'),
    misses: lines('GET /x', 'HEAD /x'),
  }),
  row({ method: { regex: '^(get|put)$', flags: 'i' } }, 'method by an expression', {
    hits: lines('GET /x', 'HEAD /x', 'PUT /x'),
    misses: lines('POST /x'),
  }),
  row({ path: '/login' }, 'a path that is exact', {
    hits: gets('/login /login?a=/b /login#x /login?'),
    misses: gets('/Login /login/ /login2 /a/login /?/login'),
  }),
  row({ path: '/login' }, 'a path in other spellings', {
    hits: [
      ...gets('//login ///login /%6Cogin /%6cogin /%2Flogin /%2f%2Flogin /%6c%6f%67%69%6e'),
      ...gets('http://other.example/login HTTP://other.example:80//login?x'),
      ...gets(`${'/'.repeat(10_000)}login`),
    ],
    misses: gets('/%256Cogin /login%2F /login%00 /login%20 /%zz//login'),
  }),
  row({ path: '/é/€' }, 'a path that is not ASCII', {
    hits: gets('/%C3%A9/%e2%82%ac'),
    misses: gets('/e/€'),
  }),
  row({ path: '/%6Cogin/%zz' }, 'a path as sent where it cannot be decoded', {
    hits: gets('/%6Cogin/%zz /%6Cogin/%zz?q'),
    misses: gets('/login/%zz /%6Cogin'),
  }),
  row({ path: '/wp-admin*' }, 'a path with a star at its end', {
    hits: gets('/wp-admin /wp-admin/ /wp-admin/a/b.php /wp-adminx'),
    misses: gets('/wp-admi /x/wp-admin /WP-admin'),
  }),
  row({ path: '/a*b*/c' }, 'a path with several stars', {
    hits: gets('/ab/c /axxbxx/c /a/b/c/c /abb/c/b/c'),
    misses: gets('/a/c /ab/cc /b/c /ab/c/'),
  }),
  row({ path: '/ab*ba' }, 'a path whose beginning and end may not overlap', {
    hits: gets('/abba /ab-ba'),
    misses: gets('/aba /ab'),
  }),
  row({ path: '*' }, 'a path that is a star', { hits: lines('GET /', 'GET /%zz', 'OPTIONS *') }),
  row({ path: '/a**b' }, 'a path with two stars side by side', {
    hits: gets('/ab /a/x/b'),
    misses: gets('/a /b'),
  }),
  row({ path: '*'.repeat(200) }, 'nothing but stars, in a long path', { hits: gets(`/${LONG}`) }),
  row({ path: '*a*a*a*a*a*a*b' }, 'many stars, without an attempt for each way to place them', {
    hits: gets(`/${LONG}b`),
    misses: gets(`/${LONG}`),
  }),
  row({ path: LONG_MIDDLE }, 'a long middle', { misses: gets(`/${LONG}`) }),
  row({ path: '/*b' }, 'many escapes', { hits: gets(`/${'%61'.repeat(3000)}b`) }),
  row({ path: '/a.b+(c)?|^$[d]\\w*' }, 'a path whose special characters match themselves', {
    hits: gets('/a.b+(c)%3F|^$[d]%5Cw /a.b+(c)%3f%7C%5E$%5Bd%5D%5Cwx'),
    misses: gets('/axb /a.bb(c) /'),
  }),
  row({ path: ['/a', '/b*', { regex: '^/c\\d$' }] }, 'a list of paths', {
    hits: gets('/a /bb /c1'),
    misses: gets('/aa /c12'),
  }),
  row(
    { path: { regex: 'ADMIN', flags: 'i' } },
    'a path by an expression, which may match anywhere',
    { hits: gets('/x/admin/y /aDmIn'), misses: gets('/adm/in /?admin') },
  ),
  row(
    { path: { regex: '^/a b$' } },
    'a path by an expression, which is case-sensitive and sees the decoded path',
    { hits: gets('/a%20b'), misses: gets('/A%20b /a+b') },
  ),
  row({ ip: '192.0.2.1' }, 'an address', { hits: from('192.0.2.1'), misses: from('192.0.2.10') }),
  row({ ip: '127.0.0.0/8' }, 'the address of the connection', {
    hits: [...gets('/'), ...from('192.0.2.1')],
    isDirect: true,
  }),
  row({ ip: '192.0.2.1' }, 'the address of the connection, whatever X-Forwarded-For says', {
    misses: from('192.0.2.1'),
    isDirect: true,
  }),
  row({ ip: '203.0.113.128/25' }, 'a range', {
    hits: from('203.0.113.128', '203.0.113.255', '::ffff:203.0.113.200'),
    misses: from('203.0.113.127', '203.0.114.0', '2001:db8::1'),
  }),
  row({ ip: '2001:DB8::/33' }, 'an IPv6 range, in any spelling', {
    hits: from('2001:db8::1', '2001:db8:7fff:ffff::', '2001:0db8:0:0:0:0:0:1'),
    misses: from('2001:db8:8000::', '2001:db9::1', '203.0.113.1'),
  }),
  row({ ip: '2001:db8::1' }, 'an IPv6 address', {
    hits: from('2001:0DB8::0:1'),
    misses: from('2001:db8::2'),
  }),
  row({ ip: '::ffff:203.0.113.7' }, 'an IPv4 address that is mapped into IPv6', {
    hits: from('203.0.113.7', '::ffff:203.0.113.7', '::ffff:cb00:7107'),
    misses: from('203.0.113.8', '::203.0.113.7'),
  }),
  row({ ip: 'fe80::/10' }, 'a link-local client that names its interface', {
    hits: from('fe80::1%eth0'),
    misses: from('fec0::1'),
  }),
  row({ ip: '0.0.0.0/0' }, 'all of IPv4, but not IPv6', {
    hits: from('192.0.2.1'),
    misses: from('2001:db8::1'),
  }),
  row(
    { ip: ['192.0.2.1', '2001:db8::/32'] },
    'a list of addresses, which a client without an address does not match',
    {
      hits: from('192.0.2.1', '2001:db8::1'),
      misses: from('192.0.2.2', 'unknown', '192.0.2.1, 192.0.2.9'),
    },
  ),
  row({ host: 'Shop.Example' }, 'host, without port, case and final dot', {
    hits: [
      ...host('shop.example', 'SHOP.EXAMPLE:8080', 'shop.example.', 'shop.example.:80'),
      ['GET http://shop.example:3000/x', 'Host: other.example'],
      ['GET http://me@SHOP.example', 'Host: other.example'],
    ],
    misses: [
      ...host('www.shop.example', 'shop.example.com'),
      having('Host: other.example', 'X-Forwarded-Host: shop.example'),
      ['GET http://other.example/', 'Host: shop.example'],
    ],
    isDirect: true,
  }),
  row({ host: '*.example' }, 'host as a trusted proxy forwards it', {
    hits: [having('Host: inner', 'X-Forwarded-Host: A.example:443'), ...host('b.example')],
    misses: [having('Host: b.example', 'X-Forwarded-Host: inner'), ...host('example')],
  }),
  row({ host: '[::1]' }, 'an IPv6 host', {
    hits: host('[::1]:3000', '[::1]'),
    misses: host('::1'),
  }),
  row({ host: '*' }, 'a host that is empty, which counts as absent', {
    hits: host('a'),
    misses: host(''),
  }),
  row({ userAgent: { regex: 'sqlmap|nikto', flags: 'i' } }, 'userAgent by an expression', {
    hits: [...agent('SQLmap/1'), having('user-agent: x nikto')],
    misses: [...agent('curl'), having('X-User-Agent: nikto'), ...gets('/nikto')],
  }),
  row({ userAgent: 'SpecialAgent' }, 'userAgent exactly', {
    hits: agent('SpecialAgent', '  SpecialAgent '),
    misses: agent('specialagent', 'SpecialAgent/1'),
  }),
  row({ userAgent: '*' }, 'any userAgent, but not a missing one', {
    hits: agent('x', ''),
    misses: gets('/users'),
  }),
  row({ userAgent: '*nikto*' }, 'userAgent that was sent twice', {
    hits: [
      having('User-Agent: nikto', 'User-Agent: nice'),
      having('User-Agent: nice', 'User-Agent: nikto'),
    ],
    misses: [having('User-Agent: nice', 'User-Agent: curl')],
  }),
  row({ header: { 'X-Bad': 'Yes' } }, 'a header, whose name is case-insensitive', {
    hits: [having('x-bad: Yes'), having('X-BAD:Yes  ')],
    misses: [...header('X-Bad', 'yes', 'Yes!'), having('X-Bad2: Yes'), ...gets('/users')],
  }),
  row({ header: { 'X-Bad': '*' } }, 'any value of a header, but not a missing one', {
    hits: header('X-Bad', '1', ''),
    misses: gets('/?X-Bad=1'),
  }),
  row({ header: { 'X-A': '*x*y*z*x*y*z*!' } }, 'a long header', {
    misses: header('X-A', 'xyz'.repeat(3000)),
  }),
  row({ header: { 'X-Bad': 'b' } }, 'a header that was sent several times, by any of its values', {
    hits: [having('X-Bad: a', 'X-Bad: b'), having('x-bad: b', 'X-Bad: c', 'X-Bad: d')],
    misses: [having('X-Bad: a', 'X-Bad: c')],
  }),
  ...['Content-Type', 'Authorization', 'Referer', 'From'].map(name =>
    row({ header: { [name]: 'bad' } }, `${name}, of which Node keeps only the first`, {
      hits: [having(`${name}: bad`, `${name}: good`), having(`${name}: good`, `${name}: bad`)],
      misses: header(name, 'good'),
    }),
  ),
  ...['__proto__', 'constructor', 'hasOwnProperty'].map(name =>
    row({ header: { 'X-Bad': '*' } }, `a header beside one that is named ${name}`, {
      hits: [having(`${name}: 1`, 'X-Bad: 1'), having('X-Bad: 1', `${name}: 1`, `${name}: 2`)],
      misses: header(name, '1'),
    }),
  ),
  row(
    { header: { constructor: '1' } },
    'a header with the name of a property that every object inherits',
    { hits: header('constructor', '1'), misses: gets('/users') },
  ),
  row({ header: { A: '1', B: ['2', '3'] } }, 'several headers, which must all be present', {
    hits: [having('A: 1', 'B: 3')],
    misses: [having('A: 1'), having('B: 2'), having('A: 1', 'B: 1')],
  }),
  row({ query: { q: 'a b' } }, 'a query parameter', {
    hits: gets('/?q=a+b /x?z&%71=a%20b /?q=1&q=a+b /users?q=a%20b&q=2'),
    misses: gets('/?q=a /?Q=a+b /?q=a%2Bb /?qq=a+b /q=a+b /users'),
  }),
  row({ query: { cmd: '*' } }, 'any value of a query parameter, but not a missing one', {
    hits: gets('/?cmd=1 /?cmd= /?cmd /?a&&cmd=/x?y /users/1?cmd=rm%zz'),
    misses: gets('/? /?command=1 /cmd /?a=cmd /users/1?cm%zz=1'),
  }),
  row(
    { query: { q: { regex: '^drop.*table$', flags: 'is' } } },
    'a query parameter by an expression over lines',
    { hits: gets('/?q=DROP%0Atable'), misses: gets('/?q=x%0ADROP%20table') },
  ),
  row({ query: { q: '*a*b*a*b*c' } }, 'a long query', {
    misses: gets(`/?q=${'ab'.repeat(5000)}`),
  }),
  row(
    { method: 'POST', path: '/login', header: { 'X-A': '1' }, query: { b: '2' }, host: 'h' },
    'several keys, which must all match',
    {
      hits: [['POST /login?b=2', 'Host: h', 'X-A: 1']],
      misses: [
        ['GET /login?b=2', 'Host: h', 'X-A: 1'],
        ['POST /logout?b=2', 'Host: h', 'X-A: 1'],
        ['POST /login?b=3', 'Host: h', 'X-A: 1'],
        ['POST /login?b=2', 'Host: i', 'X-A: 1'],
        ['POST /login?b=2', 'Host: h'],
      ],
    },
  ),
]

const behindProxy = shareLimitedApp()
const direct = shareLimitedApp({ env: { TRUST_PROXY: '' }, users: [newUserBody()] })

test.each(ROWS.map(([rule, claim, cases]) => ({ claim, rule, ...cases })))(
  'a rule matches by $claim',
  async ({ rule, hits = [], misses = [], isDirect }) => {
    const app = isDirect === true ? direct : behindProxy
    await app.startOver({ blocklist: [rule] })
    const matches = async (sent: Sent) => {
      const { socket } = sendRaw(app.port, bytesOf(sent))
      const [answer] = await once(socket, 'data')
      socket.destroy()
      return String(answer).startsWith('HTTP/1.1 403 ')
    }
    for (const sent of hits) expect([sent, await matches(sent)]).toEqual([sent, true])
    for (const sent of misses) expect([sent, await matches(sent)]).toEqual([sent, false])
    expect(app.logLines.filter(({ level }) => Number(level) >= 50)).toEqual([])
  },
)

const TAILS = [
  ...['', '?', '?a=b', '#', '#/x', '#?a', '?a#b', '?//', '?%zz', '#%zz', '\\', ';', ';a=b'],
  ...['/', '//', '/.', '/..', '%2F', '%2f', '%00', '%20', '.', '.json', '\t', '\xa0'],
]
const HEADS = [
  ...['', '/', '//', '/.', '/..', '/%2e', '\\', '/\\', 'http://h', 'HTTP://H:1', 'x://u@h/'],
  ...['http://h/', 'http:', 'https://h?', 'http://h#', '//h', '%2f', '.'],
]
const USERS = '/users /%75sers /user%73 /Users /us%65rs /users%20 /us\\ers /use"rs'.split(' ')
const PARENTS = ['/users/', '/users//', '/users%2f', '/users\\', '/%75sers/']
const IDS = "1 %31 %2531 01 +1 1%20 %EF%BC%91 1; '1 1\xa0 1%0a {1}".split(' ')

const COLLECTIONS = [...HEADS.map(head => `${head}/users`), ...USERS].flatMap(path =>
  TAILS.map(tail => path + tail),
)
const MEMBERS = [
  ...HEADS.flatMap(head => IDS.map(id => `${head}/users/${id}`)),
  ...PARENTS.flatMap(path =>
    IDS.flatMap(id => ['', '?a', '#b', '/', '%2F', '\\'].map(tail => path + id + tail)),
  ),
]

/** The route of each target, as the log has it, and the answer. */
function routed(targets: readonly string[]) {
  return Promise.all(
    targets.map(async (target, index) => {
      const id = `target-${index}`
      const sent: Sent = [`GET ${target}`, 'Connection: close', `X-Request-Id: ${id}`]
      const [answer] = await sendRaw(direct.port, bytesOf(sent)).ended
      const { status, headers, body } = answer as RawAnswer
      // What Node cannot parse is not a request yet, and has no id of its own.
      const isRequest = headers['x-request-id'] === id
      const line = isRequest
        ? await until(() => direct.logLines.find(({ requestId }) => requestId === id))
        : undefined
      return { target, status, body, route: line?.route }
    }),
  )
}

type Routed = Awaited<ReturnType<typeof routed>>[number]

test.each<[string, readonly string[], number, (answer: Routed) => boolean]>([
  ['/users', COLLECTIONS, 30, ({ route }) => route === '/users'],
  ['/users/*', MEMBERS, 30, ({ route }) => route === '/users/{id}'],
  ['/users/1', MEMBERS, 10, ({ body }) => body.startsWith('{"id":1,')],
])(
  'what the router takes for %s is that path for the filter too, in every spelling',
  async (path, targets, atLeast, isTaken) => {
    await direct.startOver({})
    const taken = (await routed(targets)).filter(isTaken).map(({ target }) => target)
    expect(taken.length).toBeGreaterThan(atLeast)
    await direct.startOver({ blocklist: [{ method: 'GET', path }] })
    const blocked = await routed(taken)
    expect(blocked.filter(({ status }) => status !== 403)).toEqual([])
  },
)
