import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { AS_JSON, type RawHeaders, requestBytes, sendRaw } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

/** The largest size of one header, with room for the others. */
const HEADER_CHARS = 15_900

const BODY_BYTES = 3_000_000

/** Steps of quadratic work that take longer than a test may; linear work of as much text takes a second. */
const STEPS = 6e10

const blanks = ' '.repeat(HEADER_CHARS)

/** Repeats `text` up to `bytes`. */
function filling(bytes: number, text: string): string {
  return text.repeat(Math.floor(bytes / Buffer.byteLength(text)))
}

const inHeader = (text: string) => filling(HEADER_CHARS, text)

const marks = (bytes: number) => `${filling(bytes, '\u0301')}${filling(bytes, '\u0316')}`

type Row = readonly [what: string, status: number, line: string, headers?: RawHeaders]

/** Inputs that make a careless parser backtrack, each for another parser. */
const OF_HEADS: readonly Row[] = [
  ['blanks in If-None-Match', 200, 'GET /users', { 'If-None-Match': `"a",${blanks}x` }],
  ['blanks in Accept', 200, 'GET /users', { Accept: `a/b;${blanks}x` }],
  ['parameters in Accept', 200, 'GET /users', { Accept: `a/b${inHeader(';a="b"')}x` }],
  ['an open string in Accept', 200, 'GET /users', { Accept: `a/b;c="${inHeader('\\"')}` }],
  ['a Host of colons', 400, 'GET /users', { Host: inHeader(':') }],
  ['digits in an instant', 400, `GET /users?created_after=2026-01-31T12:00:00.${inHeader('0')}`],
  ['marks in a filter', 200, `GET /users?name=${encodeURIComponent(marks(2600))}`],
  ['parameters of the list', 400, `GET /users?${inHeader('a&')}`],
  ['percent signs in the path', 400, `GET /${inHeader('%')}`],
  ['slashes in the path', 404, `GET /${inHeader('%2f/')}`],
  ['commas in X-Forwarded-For', 200, 'GET /users', { 'X-Forwarded-For': inHeader(',%') }],
]

/** The same in the fields of a user. */
const OF_FIELDS: readonly (readonly [what: string, user: object])[] = [
  ['marks in a name', { name: `a${marks(BODY_BYTES / 2)}` }],
  ['blanks in a name', { name: `a${filling(BODY_BYTES, ' ')}b` }],
  ['an address of labels', { email: `a@${filling(BODY_BYTES, 'a-.')}1` }],
  ['a long password', { password: filling(BODY_BYTES, '\u0301\u0316') }],
]

const app = shareTestApp({ env: { TRUST_PROXY: '1', BODY_LIMIT: '20mb' } })

test.each([
  ...OF_HEADS.map(([what, status, line, headers]) => {
    return [what, status, requestBytes(line, headers)] as const
  }),
  ...OF_FIELDS.map(([what, user]) => {
    return [what, 422, requestBytes('PUT /users/999', AS_JSON, JSON.stringify({ user }))] as const
  }),
])('no request takes time quadratic in its length: %s answers %d', async (_, status, bytes) => {
  const count = Math.ceil(STEPS / bytes.length ** 2)
  const exchange = sendRaw(app.port, Buffer.concat(Array(count).fill(bytes)))
  const answers = await exchange.answers(count)
  exchange.socket.destroy()
  expect(new Set(answers.map(answer => answer.status))).toEqual(new Set([status]))
})

test('POST /users accepts a name of 255 characters with four marks each, and reports a longer one as too long', async () => {
  const { http } = app
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
