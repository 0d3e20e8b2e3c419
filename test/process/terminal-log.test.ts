import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createTerminalFormat } from '../../src/ops/logger.ts'
import { newUserBody } from '../support/builders.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN } from '../support/spawn-service.ts'
import { untilPasses } from '../support/until.ts'

const version = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout
const hasScript = version?.includes('util-linux') ?? false
if (!hasScript) console.log('terminal-log.test.ts is skipped: no `script` of util-linux')

/** A service on a terminal, which ends with `child`. */
async function serveOnTerminal(cwd: string, env: Readonly<Record<string, string>> = {}) {
  // The shell outlives the terminal, passes SIGHUP on as the kernel would, and writes down how the service has ended.
  const command = `${process.execPath} ${MAIN} <&0 & echo $!
    trap "kill -HUP $!" HUP
    trap : INT
    wait $! # until the signal, if one comes
    wait $!
    code=$?
    echo $code > exit-code
    exit $code`
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    cwd,
    env: { PATH: process.env.PATH, TERM: 'dumb', NO_COLOR: '1', PORT: '0', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  let output = ''
  child.stdout.on('data', chunk => {
    output += chunk
  })
  const linesAfterStart = async (count: number) => {
    const lines = () => output.replaceAll('\r', '').split('\n').slice(0, -1)
    await untilPasses(() => expect(lines().length).toBeGreaterThanOrEqual(count + 3))
    return lines().slice(2)
  }
  const [listening = ''] = await linesAfterStart(0)
  const [, url = ''] = /listening on (\S+), /.exec(listening) ?? []
  return { child, pid: Number.parseInt(output, 10), url, linesAfterStart, printed: () => output }
}

const untilDone = (cwd: string) =>
  untilPasses(() => expect(readFileSync(join(cwd, 'exit-code'), 'utf8')).toBe('0\n'))

test.skipIf(!hasScript)('serve ends in order when its terminal is closed', async () => {
  const cwd = temporaryFolder()
  const { child, url } = await serveOnTerminal(cwd)
  await ask({ url }, 'POST /users', newUserBody())
  child.kill('SIGKILL')
  await untilDone(cwd)
  expect(readdirSync(join(cwd, 'data'))).toEqual(['users.db'])
})

test.skipIf(!hasScript)(
  'serve with LIMITS_FILE reads it again when its terminal is closed, and goes on without a log',
  async () => {
    const cwd = temporaryFolder()
    const write = (rules: object) => writeFileSync(join(cwd, 'limits.json'), JSON.stringify(rules))
    write({})
    const { child, url, pid } = await serveOnTerminal(cwd, { LIMITS_FILE: 'limits.json' })
    onTestFinished(() => endIfThere(pid))
    write({ blocklist: [{}] })
    child.kill('SIGKILL')
    const statuses = () =>
      Promise.all(Array.from({ length: 100 }, async () => (await fetch(`${url}/users`)).status))
    await untilPasses(async () => expect((await statuses()).at(-1)).toBe(403))
    expect(await statuses()).toEqual(Array(100).fill(403))
    process.kill(pid, 'SIGTERM')
    await untilDone(cwd)
  },
)

function endIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

test.skipIf(!hasScript)(
  'serve on a terminal prints its address and that of its docs, and then one short line for each request',
  async () => {
    const { child, url, linesAfterStart, printed } = await serveOnTerminal(temporaryFolder())
    const [listening = ''] = await linesAfterStart(0)
    const time = '\\d\\d:\\d\\d:\\d\\d'
    expect(listening).toMatch(new RegExp(`^${time} listening on ${url}, docs at ${url}/docs$`))
    await fetch(`${url}/docs`)
    await ask({ url }, 'POST /users', newUserBody())
    await fetch(`${url}/ann@example.com`)
    expect((await linesAfterStart(3)).slice(1)).toEqual([
      expect.stringMatching(`^${time} GET /docs 200 (<1|\\d+) ms 127.0.0.1$`),
      expect.stringMatching(`^${time} POST /users 201 (<1|\\d+) ms 127.0.0.1$`),
      expect.stringMatching(
        `^${time} GET \\(no route\\) 404 (<1|\\d+) ms 127.0.0.1 path_not_found$`,
      ),
    ])
    // Ctrl-C.
    const closed = once(child, 'close')
    child.stdin.write('\x03')
    expect(await closed).toEqual([0, null])
    expect(printed()).toMatch(/stopped\r?\n$/)
  },
)

const GET = { msg: 'request', method: 'GET', route: '/users', status: 200, ms: 0.4 }
const BY_KEY = { client: '192.0.2.7', key: 'web-2026' }
const BY_RULE = { status: 429, reason: 'rate_limited', type: 'throttle', rule: 'a "b"' }
const URL_OF_PORT = { url: 'http://127.0.0.1:9464', port: 9464 }

test.each([
  [GET, 'GET /users 200 <1 ms'],
  [{ ...GET, ...BY_KEY }, 'GET /users 200 <1 ms 192.0.2.7 (web-2026)'],
  [{ ...GET, status: undefined, aborted: true, ms: 18.6 }, 'GET /users aborted 19 ms'],
  [
    { ...GET, ...BY_KEY, ...BY_RULE },
    'GET /users 429 <1 ms 192.0.2.7 (web-2026) rate_limited by throttle "a \\"b\\""',
  ],
  [{ ...GET, type: 'ban', rule: 'x', dryRun: true }, 'GET /users 200 <1 ms dry run of ban "x"'],
  [
    { msg: 'request refused', status: 400, reason: 'request_malformed' },
    '(unreadable) 400 request_malformed',
  ],
  [
    { msg: 'management port listens', ...URL_OF_PORT },
    'management port listens on http://127.0.0.1:9464, with the page for operators',
  ],
])('%j is on a terminal %j', async (fields, words) => {
  const time = '2026-01-31T12:00:01.000Z'
  const [local = ''] = new Date(time).toTimeString().split(' ')
  const line = JSON.stringify({ level: 'info', time, ...fields })
  const format = await createTerminalFormat()
  expect(format(`${line}\n`)).toBe(`${local} ${words}\n`)
})

test('other lines are on a terminal with all their fields', async () => {
  const line = { level: 'warn', time: new Date(), rule: 'login', msg: 'client banned' }
  const format = await createTerminalFormat()
  const text = format(`${JSON.stringify(line)}\n`)
  expect(text).toMatch(/WARN.*client banned.*"rule":"login".*\n$/)
})
