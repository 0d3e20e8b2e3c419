import { once } from 'node:events'
import { expect, test } from 'vitest'
import type { FilterRule } from '../../src/limits/kinds/define-limits.ts'
import { newUserBody } from '../support/builders.ts'
import { shareLimitedApp } from '../support/limited-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

/** A request as it is sent: line, then headers. */
type Sent = readonly [line: string, ...headers: string[]]

function bytesOf([line, ...headers]: Sent): Buffer {
  const all = headers.some(header => /^host:/i.test(header)) ? headers : ['Host: a', ...headers]
  const head = all.map(header => `${header}\r\n`).join('')
  return Buffer.from(`${line} HTTP/1.1\r\n${head}\r\n`, 'latin1')
}

const lines = (...all: string[]): Sent[] => all.map(line => [line])

/** A GET of each of these targets, which stand between spaces. */
const gets = (targets: string) => lines(...(targets.match(/\S+/g) ?? []).map(path => `GET ${path}`))

/** A request with these headers. */
const having = (...headers: string[]): Sent => ['GET /users', ...headers]

/** A request for each of these values of a header. */
const header = (name: string, ...values: string[]) =>
  values.map(value => having(`${name}:${value}`))

const from = (...clients: string[]) => header('X-Forwarded-For', ...clients)
const agent = (...agents: string[]) => header('User-Agent', ...agents)
const host = (...hosts: string[]) => header('Host', ...hosts)

interface Row {
  readonly rule: FilterRule
  readonly hits: readonly Sent[]
  readonly misses: readonly Sent[]
}

const row = (rule: FilterRule, hits: readonly Sent[], misses: readonly Sent[] = []): Row => ({
  ...{ rule, hits, misses },
})

/** The targets of hits and misses, which stand between spaces. */
const ofPath = (path: FilterRule['path'] & {}, hits: string, misses = '') =>
  row({ path }, gets(hits), gets(misses))

const ofQuery = (query: FilterRule['query'] & {}, hits: string, misses: string) =>
  row({ query }, gets(hits), gets(misses))

/** The clients of hits and misses, which stand between spaces, as a trusted proxy forwards them. */
const ofIp = (ip: FilterRule['ip'] & {}, hits: string, misses: string) =>
  row({ ip }, from(...hits.split(' ')), from(...misses.split(' ')))

const LONG = 'a'.repeat(10_000)

const ROWS: readonly Row[] = [
  row({}, lines('GET /', 'GET /users/%zz', 'OPTIONS *', 'PROPFIND /x')),
  row({ method: 'GET' }, lines('GET /x', 'HEAD /x'), lines('POST /x', 'OPTIONS /x')),
  row({ method: ['put', 'HEAD'] }, lines('PUT /x', 'HEAD /x'), lines('GET /x', 'POST /x')),
  row({ method: 'P*' }, lines('PUT /x', 'PROPFIND /x'), lines('GET /x', 'HEAD /x')),
  ofPath('/login', '/login /login?a=/b /login#x', '/Login /login/ /login2 /a/login /?/login'),
  ofPath(
    '/login',
    `//login ///login /%6Cogin /%2Flogin http://other.example/login ${'/'.repeat(10_000)}login`,
    '/%256Cogin /login%2F /login%00 /login%20 /%zz//login',
  ),
  ofPath('/é/€', '/%C3%A9/%e2%82%ac', '/e/€'),
  // A path that cannot be decoded is compared as it was sent.
  ofPath('/%6Cogin/%zz', '/%6Cogin/%zz /%6Cogin/%zz?q', '/login/%zz /%6Cogin'),
  ofPath('/wp-admin*', '/wp-admin /wp-admin/a/b.php /wp-adminx', '/wp-admi /x/wp-admin /WP-admin'),
  ofPath('/a*b*/c', '/ab/c /axxbxx/c /a/b/c/c /abb/c/b/c', '/a/c /ab/cc /b/c /ab/c/'),
  row({ path: '*' }, lines('GET /', 'GET /%zz', 'OPTIONS *')),
  // Without an attempt for each way to place the stars.
  ofPath('*a*a*a*a*a*a*b', `/${LONG}b /${'%61'.repeat(3000)}b`, `/${LONG}`),
  ofPath('/a.b+(c)?|^$[d]\\w*', '/a.b+(c)%3F|^$[d]%5Cw /a.b+(c)%3f%7C%5E$%5Bd%5D%5Cwx', '/axb /'),
  ofPath(['/a', '/b*', { regex: '^/c\\d$' }], '/a /bb /c1', '/aa /c12'),
  ofPath({ regex: 'ADMIN', flags: 'i' }, '/x/admin/y /aDmIn', '/adm/in /?admin'),
  ofPath({ regex: '^/a b$' }, '/a%20b', '/A%20b /a+b'),
  ofIp('192.0.2.1', '192.0.2.1', '192.0.2.10'),
  ofIp(
    '203.0.113.128/25',
    '203.0.113.128 203.0.113.255 ::ffff:203.0.113.200',
    '203.0.113.127 203.0.114.0 2001:db8::1',
  ),
  ofIp(
    '2001:DB8::/33',
    '2001:db8::1 2001:db8:7fff:ffff:: 2001:0db8:0:0:0:0:0:1',
    '2001:db8:8000:: 2001:db9::1 203.0.113.1',
  ),
  ofIp('::ffff:203.0.113.7', '203.0.113.7 ::ffff:cb00:7107', '203.0.113.8 ::203.0.113.7'),
  ofIp('fe80::/10', 'fe80::1%eth0', 'fec0::1'),
  ofIp('0.0.0.0/0', '192.0.2.1', '2001:db8::1 unknown'),
  ofIp('::/0', '2001:db8::1 ::1', '192.0.2.1 ::ffff:192.0.2.1 unknown'),
  ofIp(['192.0.2.1', '2001:db8::/32'], '192.0.2.1 2001:db8::1', '192.0.2.2 192.0.2.1,192.0.2.9'),
  row(
    { host: '*.example' },
    [having('Host: inner', 'X-Forwarded-Host: A.example:443'), ...host('b.example')],
    [having('Host: b.example', 'X-Forwarded-Host: inner'), ...host('example')],
  ),
  row({ host: '[::1]' }, host('[::1]:3000', '[::1]'), host('::1')),
  row(
    { userAgent: { regex: 'sqlmap|nikto', flags: 'i' } },
    [...agent('SQLmap/1'), having('user-agent: x nikto')],
    [...agent('curl'), having('X-User-Agent: nikto'), ...gets('/nikto')],
  ),
  row({ userAgent: '*' }, agent('x', ''), gets('/users')),
  row(
    { header: { 'X-Bad': 'Yes' } },
    [having('x-bad: Yes'), having('X-BAD:Yes  ')],
    [...header('X-Bad', 'yes', 'Yes!'), having('X-Bad2: Yes'), ...gets('/users')],
  ),
  // Of most of these, Node keeps only the first.
  ...['X-Bad', 'User-Agent', 'Content-Type', 'Authorization', 'Referer'].map(name =>
    row(
      { header: { [name]: 'bad' } },
      [having(`${name}: bad`, `${name}: good`), having(`${name}: good`, `${name}: bad`)],
      [having(`${name}: good`, `${name}: fine`)],
    ),
  ),
  ...['__proto__', 'constructor'].map(name =>
    row(
      { header: { 'X-Bad': '*' } },
      [having(`${name}: 1`, 'X-Bad: 1'), having('X-Bad: 1', `${name}: 1`, `${name}: 2`)],
      header(name, '1'),
    ),
  ),
  row({ header: { constructor: '1' } }, header('constructor', '1'), gets('/users')),
  row(
    { header: { A: '1', B: ['2', '3'] } },
    [having('A: 1', 'B: 3')],
    [having('A: 1'), having('B: 2'), having('A: 1', 'B: 1')],
  ),
  ofQuery(
    { q: 'a b' },
    '/?q=a+b /x?z&%71=a%20b /?q=1&q=a+b /users?q=a%20b&q=2',
    '/?q=a /?Q=a+b /?q=a%2Bb /?qq=a+b /q=a+b /users',
  ),
  ofQuery(
    { cmd: '*' },
    '/?cmd=1 /?cmd= /?cmd /?a&&cmd=/x?y /users/1?cmd=rm%zz',
    '/? /?command=1 /cmd /?a=cmd /users/1?cm%zz=1',
  ),
  ofQuery(
    { q: { regex: '^drop.*table$', flags: 'is' } },
    '/?q=DROP%0Atable',
    '/?q=x%0ADROP%20table',
  ),
  row(
    { method: 'POST', path: '/login', header: { 'X-A': '1' }, query: { b: '2' }, host: 'h' },
    [['POST /login?b=2', 'Host: h', 'X-A: 1']],
    [
      ['GET /login?b=2', 'Host: h', 'X-A: 1'],
      ['POST /logout?b=2', 'Host: h', 'X-A: 1'],
      ['POST /login?b=3', 'Host: h', 'X-A: 1'],
      ['POST /login?b=2', 'Host: i', 'X-A: 1'],
      ['POST /login?b=2', 'Host: h'],
    ],
  ),
]

/** Of a service that trusts no proxy. */
const DIRECT_ROWS: readonly Row[] = [
  row({ ip: '127.0.0.0/8' }, [...gets('/'), ...from('192.0.2.1')]),
  row({ ip: '192.0.2.1' }, [], from('192.0.2.1')),
  row(
    { host: 'Shop.Example' },
    [
      ...host('shop.example', 'SHOP.EXAMPLE:8080', 'shop.example.', 'shop.example.:80'),
      ['GET http://me@SHOP.example:3000/x', 'Host: other.example'],
    ],
    [
      ...host('www.shop.example', 'shop.example.com'),
      having('Host: other.example', 'X-Forwarded-Host: shop.example'),
      ['GET http://other.example/', 'Host: shop.example'],
    ],
  ),
]

const behindProxy = shareLimitedApp()
const direct = shareLimitedApp({ env: { TRUST_PROXY: '' }, users: [newUserBody()] })

test.each([
  ...ROWS.map(shown => ({ ...shown, app: behindProxy, where: 'behind a proxy' })),
  ...DIRECT_ROWS.map(shown => ({ ...shown, app: direct, where: 'without a proxy' })),
])('a rule matches by $rule, and by nothing else, $where', async ({ rule, hits, misses, app }) => {
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
})

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
