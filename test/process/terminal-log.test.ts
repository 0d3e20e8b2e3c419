import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createTerminalFormat } from '../../src/ops/terminal-log.ts'
import { newUserBody } from '../support/builders.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN } from '../support/spawn-service.ts'
import { untilPasses } from '../support/until.ts'

const hasScript = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes(
  'util-linux',
)
const reason = hasScript ? undefined : 'there is no `script` of util-linux to make a terminal'
if (reason !== undefined) console.log(`test/ops/terminal-log.test.ts is skipped: ${reason}`)

const TIME = '\\d\\d:\\d\\d:\\d\\d'

describe.skipIf(reason !== undefined)('on a terminal', () => {
  test('serve prints its address and that of its docs, and then one short line for each request', async () => {
    const command = `exec ${process.execPath} ${MAIN}`
    const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
      cwd: temporaryFolder(),
      env: { PATH: process.env.PATH, TERM: 'dumb', NO_COLOR: '1', PORT: '0' },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    onTestFinished(() => {
      child.kill('SIGKILL')
    })
    let printed = ''
    child.stdout.on('data', chunk => {
      printed += chunk
    })
    const linesAfterStart = async (count: number) => {
      const lines = () => printed.replaceAll('\r', '').split('\n').slice(0, -1)
      await untilPasses(() => expect(lines().length).toBeGreaterThanOrEqual(count + 2))
      return lines().slice(1)
    }
    const [listening = ''] = await linesAfterStart(0)
    const [, url = ''] = /listening on (\S+), /.exec(listening) ?? []
    expect(listening).toMatch(new RegExp(`^${TIME} listening on ${url}, docs at ${url}/docs$`))
    expect((await fetch(`${url}/docs`)).status).toBe(200)
    await createUser(url)
    await createUser(url)
    await fetch(`${url}/ann@example.com`)
    expect((await linesAfterStart(4)).slice(1)).toEqual([
      expect.stringMatching(`^${TIME} GET /docs 200 (<1|\\d+) ms$`),
      expect.stringMatching(`^${TIME} POST /users 201 (<1|\\d+) ms$`),
      expect.stringMatching(`^${TIME} POST /users 422 (<1|\\d+) ms email_taken$`),
      expect.stringMatching(`^${TIME} GET \\(no route\\) 404 (<1|\\d+) ms path_not_found$`),
    ])
    // Ctrl-C.
    const closed = once(child, 'close')
    child.stdin.write('\x03')
    expect(await closed).toEqual([0, null])
    expect(printed).toMatch(/stopped\r?\n$/)
  })
})

describe('createTerminalFormat writes', () => {
  const time = '2026-01-31T12:00:01.000Z'
  const [local = ''] = new Date(time).toTimeString().split(' ')

  test.each([
    [{ method: 'GET', route: '/users', status: 200, ms: 0.4 }, 'GET /users 200 <1 ms'],
    [{ method: 'POST', route: '/users', status: 201, ms: 18.6 }, 'POST /users 201 19 ms'],
    [{ method: 'PUT', route: '/users/{id}', aborted: true, ms: 7 }, 'PUT /users/{id} aborted 7 ms'],
    [
      {
        ...{ method: 'GET', status: 429, ms: 1, reason: 'rate_limited' },
        ...{ type: 'throttle', rule: 'a "b"' },
      },
      'GET (no route) 429 1 ms rate_limited by throttle "a \\"b\\""',
    ],
    [
      {
        ...{ method: 'GET', route: '/', status: 200, ms: 1 },
        ...{ type: 'ban', rule: 'x', dryRun: true },
      },
      'GET / 200 1 ms dry run of ban "x"',
    ],
    [
      { msg: 'request refused', status: 400, reason: 'request_malformed' },
      '(unreadable) 400 request_malformed',
    ],
    [
      { msg: 'management port listens', url: 'http://127.0.0.1:9464', port: 9464 },
      'management port listens on http://127.0.0.1:9464, with the page for operators',
    ],
  ])('%j', (fields, words) => {
    const line = JSON.stringify({ level: 'info', time, msg: 'request', ...fields })
    expect(createTerminalFormat()(`${line}\n`)).toBe(`${local} ${words}\n`)
  })

  test('other lines with all their fields', () => {
    const line = JSON.stringify({ level: 'warn', time, rule: 'login', msg: 'client banned' })
    const text = createTerminalFormat()(`${line}\n`)
    for (const part of [local, 'WARN', 'client banned', '"rule":"login"']) {
      expect(text).toContain(part)
    }
    expect(text.trimEnd()).not.toContain('\n')
  })
})

function createUser(url: string): Promise<Response> {
  return fetch(`${url}/users`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(newUserBody({ email: 'ann@example.com' })),
  })
}
