import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { spawnService } from '../support/spawn-service.ts'

/** The largest size of one header, with room for the others. */
const HEADER_CHARS = 15_900

const BODY_BYTES = 100_000

/** So many repetitions that quadratic work exceeds the time limit, and linear work ends long before it. */
const REPEATS = 150

const WATCHDOG_MS = 25_000

const blanks = ' '.repeat(HEADER_CHARS)

function get(headers: string, target = '/users'): string {
  return `GET ${target} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`
}

function put(user: object): string {
  const body = JSON.stringify({ user })
  const length = Buffer.byteLength(body)
  return `PUT /users/1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`
}

/** Repeats `text` up to `bytes`. */
function filling(bytes: number, text: string): string {
  return text.repeat(Math.floor(bytes / Buffer.byteLength(text)))
}

/** Inputs that make a careless parser backtrack, each for another parser. */
const ROWS: readonly (readonly [what: string, request: string, status: number])[] = [
  ['blanks in If-None-Match', get(`If-None-Match: "a",${blanks}x\r\n`), 200],
  [
    'blanks in If-Match',
    `DELETE /users/1 HTTP/1.1\r\nHost: x\r\nIf-Match: "a",${blanks}x\r\n\r\n`,
    404,
  ],
  ['blanks in Accept', get(`Accept: a/b;${blanks}x\r\n`), 200],
  ['parameters in Accept', get(`Accept: a/b${filling(HEADER_CHARS, ';a="b"')}x\r\n`), 200],
  ['an open string in Accept', get(`Accept: a/b;c="${filling(HEADER_CHARS, '\\"')}\r\n`), 200],
  ['dots in Host', `GET /users HTTP/1.1\r\nHost: ${filling(HEADER_CHARS, '.')}\r\n\r\n`, 200],
  ['a Host of colons', `GET /users HTTP/1.1\r\nHost: ${filling(HEADER_CHARS, ':')}\r\n\r\n`, 400],
  [
    'digits in an instant',
    get('', `/users?created_after=2026-01-31T12:00:00.${filling(HEADER_CHARS, '0')}`),
    400,
  ],
  [
    'marks in a filter',
    get('', `/users?name=${filling(7900, '%CC%81')}${filling(7900, '%CC%96')}`),
    200,
  ],
  ['parameters of the list', get('', `/users?${filling(HEADER_CHARS, 'a&')}`), 400],
  ['percent signs in the path', get('', `/${filling(HEADER_CHARS, '%')}`), 400],
  ['slashes in the path', get('', `/${filling(HEADER_CHARS, '%2f/')}`), 404],
  ['commas in X-Forwarded-For', get(`X-Forwarded-For: ${filling(HEADER_CHARS, ',%')}\r\n`), 200],
  [
    'marks in a name',
    put({ name: `a${filling(49_000, '\u0301')}${filling(49_000, '\u0316')}` }),
    422,
  ],
  ['blanks in a name', put({ name: `a${filling(BODY_BYTES - 100, ' ')}b` }), 422],
  ['dots in an address', put({ email: filling(BODY_BYTES - 100, 'a.') }), 422],
  ['an address of labels', put({ email: `a@${filling(BODY_BYTES - 100, 'a-.')}1` }), 422],
  ['a long password', put({ password: filling(BODY_BYTES - 100, '\u0301\u0316') }), 422],
]

test('no request takes time quadratic in its length', async () => {
  const { port } = await spawnService({ cwd: temporaryFolder(), env: { TRUST_PROXY: '1' } })
  for (const [what, request, status] of ROWS) {
    const exchange = sendRaw(port, Buffer.from(request.repeat(REPEATS)))
    let watchdog: NodeJS.Timeout | undefined
    const statuses: readonly unknown[] = await Promise.race([
      exchange.answers(REPEATS).then(answers => answers.map(answer => answer.status)),
      new Promise<string[]>(resolve => {
        watchdog = setTimeout(() => resolve(['no answers']), WATCHDOG_MS)
      }),
    ])
    clearTimeout(watchdog)
    exchange.socket.destroy()
    expect([what, new Set(statuses)]).toEqual([what, new Set([status])])
  }
}, 300_000)

test('POST /users accepts a name of 255 characters with four marks each, and reports a longer one as too long', async () => {
  const { http } = await openTestApp()
  const character = '\u1f82'
  const name = character.normalize('NFD').repeat(255)
  expect([...name]).toHaveLength(255 * 4)
  const created = await http.post('/users').send(newUserBody({ name })).expect(201)
  expect(created.body.name).toBe(character.repeat(255))
  const found = await http.get('/users').query({ name: name.normalize('NFD') })
  expect(found.body).toEqual([created.body])
  const refused = await http.post('/users').send(newUserBody({ name: `${name}a` }))
  expect(refused.body.errors).toEqual({ name: ['is too long (maximum is 255 characters)'] })
})

test('POST /users answers 422 to an address of millions of characters', async () => {
  const { http } = await openTestApp({ env: { BODY_LIMIT: '20mb' } })
  for (const email of ['a.'.repeat(4_000_000), `a@${'a.'.repeat(4_000_000)}`]) {
    const { status, body } = await http.post('/users').send(newUserBody({ email }))
    expect(status).toBe(422)
    expect(body.errors.email).toContain('is invalid')
  }
})
