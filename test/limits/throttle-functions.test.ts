import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'

function openWithModule(rules: string) {
  const path = join(temporaryFolder(), 'limits.mjs')
  writeFileSync(path, `export default ${rules}`)
  return openTestApp({ env: { LIMITS_FILE: path } })
}

test.each([
  ['throws', '() => { throw new Error("boom") }'],
  ['hands the request on', '(request, response, next) => next()'],
  ['gives a promise that rejects', 'async () => { throw new Error("boom") }'],
])(
  'a throttle whose with %s refuses nothing, and those behind it are asked',
  async (_how, code) => {
    const { http, logLines } = await openWithModule(`{
    throttle: [
      { name: 'first', path: '/a', limit: 1, period: 60, with: ${code} },
      { name: 'second', path: '/a', limit: 2, period: 60 },
    ],
    track: [{ name: 'seen', path: '/a' }],
  }`)
    const statuses: number[] = []
    for (let count = 0; count < 3; count++) statuses.push((await http.get('/a')).status)
    expect(statuses).toEqual([404, 404, 429])
    const passed = logLines.filter(({ msg, status }) => msg === 'request' && status === 404)
    expect(passed).toHaveLength(2)
    for (const line of passed) expect(line).not.toHaveProperty('rule')
    expect(logLines.filter(({ msg }) => msg === 'request tracked')).toHaveLength(2)
  },
)

test('an answer that a function let pass bears no header of the refusal', async () => {
  const { http } = await openWithModule(`{
    throttle: [{ limit: 1, period: 60, with: (request, response, next) => next() }],
  }`)
  await http.get('/users')
  const { status, headers } = await http.get('/users')
  expect(status).toBe(200)
  expect(headers.vary).toBe('Accept')
  for (const name of ['ratelimit', 'ratelimit-policy', 'retry-after']) {
    expect(headers).not.toHaveProperty(name)
  }
})
