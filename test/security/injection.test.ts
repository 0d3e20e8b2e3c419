import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import {
  askAndClose,
  CLOSING,
  type RawHeaders,
  requestBytes,
  sendRaw,
} from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

/** Texts that would end a line, control a terminal or look like a line of the log. */
const PAYLOADS = [
  '"}\\n{"level":"fatal","msg":"forged"}',
  '%0d%0a{"level":"fatal","msg":"forged"}',
  '\x85{"level":"fatal","msg":"forged"}',
  '\x9b2J\x9b31mforged',
  '\xe2\x80\xa8{"msg":"forged"}',
  '\t{"msg":"forged"}',
  // These make a request that no parser accepts.
  '\r\n{"msg":"forged"}',
  '\x1b[2J\x1b[31mforged',
  '\0forged',
] as const

type Place = (payload: string) => readonly [line: string, headers?: RawHeaders]

const PLACES: readonly (readonly [name: string, Place])[] = [
  ['User-Agent', text => ['GET /users', { 'User-Agent': `Mine${text}` }]],
  ['X-Request-Id', text => ['GET /users', { 'X-Request-Id': `mine${text}` }]],
  ['Host', text => ['GET /users', { Host: `x${text}` }]],
  ['the path', text => [`GET /users/${text}`]],
  ['the query', text => [`GET /users?sort=${text}`]],
  ['the name of a parameter', text => [`GET /users?${text}=1`]],
  ['X-Forwarded-For', text => ['GET /users', { 'X-Forwarded-For': text }]],
]

describe('the log', () => {
  const app = shareTestApp({ env: { TRUST_PROXY: '1' } })

  test.each(PLACES)(
    'what is sent in %s makes one log line per request, and is in it as sent or not at all',
    async (_, place) => {
      const seen = app.logText.length
      for (const payload of PAYLOADS) {
        const [line, headers] = place(payload)
        await sendRaw(app.port, requestBytes(line, { ...CLOSING, ...headers })).ended
      }
      const lines = app.logText.slice(seen)
      expect(lines).toHaveLength(PAYLOADS.length)
      // For a reader that uses the line ends of Unicode, which JSON does not require.
      expect(lines.join('\n').split(/[\n\r\x85\u2028\u2029]/)).toEqual(lines)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: none may stand there
      expect(lines.join('')).not.toMatch(/[\x00-\x1f\x7f-\x9f]/)
      const entries = lines.map(line => JSON.parse(line))
      for (const { level, msg } of entries) {
        expect(level).toBe(30)
        expect(['request', 'request refused']).toContain(msg)
      }
      expect(new Set(entries.map(({ requestId }) => requestId)).size).toBe(lines.length)
    },
  )
})

const BREAKS = [
  ...['\r\nX-Injected: yes', '%0d%0aX-Injected: yes', '%0D%0A%0D%0A<script>'],
  '>; rel="x", <//evil.example>',
]

const LINKS = /<\/users\?[\w%=&.~!'()*-]*>; rel="(?:next|first|prev)"(?:, )?/g

test('no line break or link of a parameter gets into Link', async () => {
  const users = [1, 2].map(() => newUserBody({ name: 'Ann' }))
  const { port } = await openTestApp({ users })
  const statuses = new Set<number>()
  for (const text of BREAKS) {
    for (const query of [
      `per_page=1&name=${text}`,
      `per_page=1&page=1&name=Ann&email=${text}`,
      `per_page=1&sort=${text}`,
      `per_page=1&after=${text}`,
      `per_page=1&${text}=1`,
    ]) {
      const answer = await askAndClose(port, `GET /users?${query.replaceAll(' ', '+')}`)
      expect(answer.headers).not.toHaveProperty('x-injected')
      expect((answer.headers.link ?? '').replace(LINKS, '')).toBe('')
      statuses.add(answer.status)
    }
  }
  expect(statuses).toEqual(new Set([200, 400]))
})

test('no line break of a name or an address gets into Location or ETag', async () => {
  const { http } = await openTestApp()
  const create = (fields: object) => http.post('/users').send(newUserBody({ ...fields }))
  const refused = await create({ name: 'Ann\r\nX-Injected: yes\r\n\r\n<script>' }).expect(422)
  expect(refused.body.errors).toEqual({ name: ['is invalid'] })
  await create({ email: 'a@x.co\r\nX-Injected: yes' }).expect(422)
  const trimmed = { name: '\r\nAnn"\\\r\n', email: "\r\na'b@x.co\r\n" }
  const { body, headers } = await create(trimmed).expect(201)
  expect(body).toMatchObject({ name: 'Ann"\\', email: "a'b@x.co" })
  expect(headers.location).toBe('/users/1')
  expect(headers.etag).toMatch(/^"[-\w.:]+"$/)
  expect(headers).not.toHaveProperty('x-injected')
})
