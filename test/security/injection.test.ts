import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'
import { spawnService } from '../support/spawn-service.ts'

/** Texts that would end a line, control a terminal or look like a line of the log. */
const PAYLOADS = [
  '","level":"fatal","msg":"forged"}',
  '"}\\n{"level":"fatal","msg":"forged"}',
  '\\u000a{"msg":"forged"}',
  '%0d%0a{"level":"fatal","msg":"forged"}',
  '\x85{"level":"fatal","msg":"forged"}',
  '\x9b2J\x9b31mforged',
  '\xe2\x80\xa8{"msg":"forged"}',
  '\t{"msg":"forged"}',
] as const

/** These make a request that no parser accepts. */
const CONTROL_PAYLOADS = [
  '\n{"msg":"forged"}',
  '\r{"msg":"forged"}',
  '\r\n{"msg":"forged"}',
  '\x1b[2J\x1b[31mforged',
  '\0forged',
  '\x7fforged',
] as const

type Placing = (payload: string) => string

function request(line: string, ...headers: string[]): string {
  return [line, 'Connection: close', ...headers, '', ''].join('\r\n')
}

const PLACES: readonly (readonly [place: string, placing: Placing])[] = [
  ['User-Agent', text => request('GET /users HTTP/1.1', 'Host: x', `User-Agent: Mine${text}`)],
  ['X-Request-Id', text => request('GET /users HTTP/1.1', 'Host: x', `X-Request-Id: mine${text}`)],
  ['Host', text => request('GET /users HTTP/1.1', `Host: x${text}`)],
  ['the path', text => request(`GET /users/${text} HTTP/1.1`, 'Host: x')],
  ['the query', text => request(`GET /users?sort=${text} HTTP/1.1`, 'Host: x')],
  ['the name of a parameter', text => request(`GET /users?${text}=1 HTTP/1.1`, 'Host: x')],
  [
    'X-Forwarded-For',
    text => request('GET /users HTTP/1.1', 'Host: x', `X-Forwarded-For: ${text}`),
  ],
]

test.each(PLACES)(
  'what is sent in %s makes one log line per request, and is in it as sent or not at all',
  async (_, place) => {
    const { port, stdout } = await spawnService({
      cwd: temporaryFolder(),
      env: { TRUST_PROXY: '1' },
    })
    const before = stdout()
    const payloads = [...PAYLOADS, ...CONTROL_PAYLOADS]
    for (const payload of payloads) await sendRaw(port, Buffer.from(place(payload), 'latin1')).ended
    const lines = await linesBehind(before, stdout, payloads.length)
    // For a reader that uses the line ends of Unicode, which JSON does not require.
    expect(lines.join('\n').split(/[\n\r\x85\u2028\u2029]/)).toEqual(lines)
    const entries = lines.map(line => JSON.parse(line))
    for (const { level, msg } of entries) {
      expect(level).toBe('info')
      expect(['request', 'request refused']).toContain(msg)
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none may stand there
    expect(lines.join('')).not.toMatch(/[\x00-\x1f\x7f-\x9f]/)
    expect(new Set(entries.map(({ requestId }) => requestId)).size).toBe(payloads.length)
  },
)

async function linesBehind(before: string, stdout: () => string, count: number): Promise<string[]> {
  for (;;) {
    const lines = stdout().slice(before.length).split('\n').slice(0, -1)
    if (lines.length >= count) return lines
    await sleep(20)
  }
}

const BREAKS = [
  '\r\nX-Injected: yes',
  '%0d%0aX-Injected: yes',
  '%0D%0A%0D%0A<script>',
  '>; rel="x", <//evil.example>',
]

function expectNothingInjected(answers: readonly RawAnswer[]): void {
  expect(answers).toHaveLength(1)
  const [answer] = answers as [RawAnswer]
  expect(answer.headers).not.toHaveProperty('x-injected')
  const { link = '' } = answer.headers
  expect(link.replace(/<\/users\?[\w%=&.~!'()*-]*>; rel="(?:next|first|prev)"(?:, )?/g, '')).toBe(
    '',
  )
}

test('no line break or link of a parameter gets into Link', async () => {
  const { port, http } = await openTestApp()
  for (const _ of [1, 2])
    await http
      .post('/users')
      .send(newUserBody({ name: 'Ann' }))
      .expect(201)
  const statuses = []
  for (const text of BREAKS) {
    for (const query of [
      `per_page=1&name=${text}`,
      `per_page=1&page=1&name=Ann&email=${text}`,
      `per_page=1&sort=${text}`,
      `per_page=1&after=${text}`,
      `per_page=1&${text}=1`,
    ]) {
      const target = query.replaceAll(' ', '+')
      const answers = await sendRaw(port, request(`GET /users?${target} HTTP/1.1`, 'Host: x')).ended
      expectNothingInjected(answers)
      statuses.push(answers[0]?.status)
    }
  }
  expect(new Set(statuses)).toEqual(new Set([200, 400]))
})

test('a filter with line breaks and quotes is encoded in Link', async () => {
  const { http } = await openTestApp()
  for (const _ of [1, 2])
    await http
      .post('/users')
      .send(newUserBody({ name: 'a">b, <c' }))
      .expect(201)
  const { headers } = await http.get('/users').query({ per_page: 1, page: 1, name: 'a">b, <c' })
  expect(headers.link).toContain('name=a%22%3Eb%2C%20%3Cc&after=')
})

test('no line break of a name or an address gets into Location or ETag', async () => {
  const { http } = await openTestApp()
  const hostile = 'Ann\r\nX-Injected: yes\r\n\r\n<script>'
  const refused = await http
    .post('/users')
    .send(newUserBody({ name: hostile }))
    .expect(422)
  expect(refused.body.errors).toEqual({ name: ['is invalid'] })
  await http
    .post('/users')
    .send(newUserBody({ email: `a@x.co\r\nX-Injected: yes` }))
    .expect(422)
  const trimmed = newUserBody({ name: '\r\nAnn"\\\r\n', email: "\r\na'b@x.co\r\n" })
  const { body, headers } = await http.post('/users').send(trimmed).expect(201)
  expect(body).toMatchObject({ name: 'Ann"\\', email: "a'b@x.co" })
  expect(headers.location).toBe('/users/1')
  expect(headers.etag).toBe(`"${body.updated_at}"`)
  expect(headers).not.toHaveProperty('x-injected')
})
