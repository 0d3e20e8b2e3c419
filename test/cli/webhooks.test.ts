import { describe, expect, test } from 'vitest'
import { databaseIn } from '../support/new-database.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { runCommand, stderrOf, stdoutOf } from '../support/run-command.ts'
import { selectRows } from '../support/sql.ts'
import {
  addWebhook,
  isSignedWith,
  listWebhooks,
  openReceiver,
  status,
  webhooks,
} from '../support/webhook-receiver.ts'

const URL = 'https://user:pass@example.com/hook?token=secret#fragment'

const newDatabase = () => databaseIn(temporaryFolder())

describe('webhooks add', () => {
  test('prints the secret alone on standard output, and nothing shows it again', async () => {
    const databaseUrl = await newDatabase()
    const { code, stdout, stderr } = await webhooks(
      databaseUrl,
      ...['add', '--name', 'search', '--url', URL],
    )
    expect([code, stderr]).toEqual([
      0,
      'The receiver verifies with this secret, which is never shown again.\n',
    ])
    expect(stdout).toMatch(/^whsec_[A-Za-z0-9+/]{43}=\n$/)
    const list = await stdoutOf(webhooks(databaseUrl, 'list'))
    expect(list).toBe('search  https://example.com/hook  active  0 s behind\n')
    expect(await listWebhooks(databaseUrl)).toEqual([
      {
        ...{ name: 'search', url: 'https://example.com/hook', state: 'active' },
        ...{ behind_seconds: 0, failing_since: null, last_error: null },
      },
    ])
  })

  test('with --json prints all of it as JSON, without credentials', async () => {
    const databaseUrl = await newDatabase()
    const args = ['add', '--name', 'search', '--url', URL, '--json']
    expect(JSON.parse(await stdoutOf(webhooks(databaseUrl, ...args)))).toEqual({
      ...{ name: 'search', url: 'https://example.com/hook' },
      secret: expect.stringMatching(/^whsec_/),
    })
  })

  test('warns of http', async () => {
    const { code, stderr } = await webhooks(
      await newDatabase(),
      ...['add', '--name', 'search', '--url', 'http://127.0.0.1:4000'],
    )
    expect([code, stderr]).toEqual([0, expect.stringContaining('warning: over http: ')])
  })

  test.each([
    [['--name', '-x', '--url', 'https://example.com'], '--name was -x; it may be 1 to 64 letters'],
    [['--name', 'x', '--url', 'example.com'], '--url must be an address such as https://'],
    [['--name', 'x', '--url', 'ftp://me:pw@example.com'], '--url must be an address such as'],
    [
      ['--name', 'x', '--url', 'https://me:50%pw@example.com'],
      '--url must have % in its credentials as %25',
    ],
    [['--name', 'x', '--url', 'http://169.254.169.254/'], '--url must not lead to 169.254.169.254'],
    [['--name', 'x', '--url', 'http://[fe80::1]/'], '--url must not lead to fe80::1'],
    [
      ['--name', 'x', '--url', 'https://example.com', '--from', 'end'],
      '--from was end; it may be start',
    ],
  ])('refuses %j', async (args, why) => {
    const stderr = await stderrOf(webhooks(await newDatabase(), 'add', ...args), 2)
    expect(stderr).toContain(why)
    expect(stderr).not.toContain('pw')
  })

  test('refuses a name that is taken, and a 21st', async () => {
    const databaseUrl = await newDatabase()
    for (let at = 0; at < 20; at++) await addWebhook(databaseUrl, `hook${at}`, URL)
    const twentyFirst = webhooks(databaseUrl, 'add', '--name', 'more', '--url', URL)
    expect(await stderrOf(twentyFirst)).toContain('there are 20 webhooks already')
    await stdoutOf(webhooks(databaseUrl, 'remove', 'hook0'))
    const taken = webhooks(databaseUrl, 'add', '--name', 'hook1', '--url', URL)
    expect(await stderrOf(taken)).toContain('there is a webhook hook1 already')
  })
})

describe('webhooks test', () => {
  test('sends one signed request of the type test, and says what came back', async () => {
    const databaseUrl = await newDatabase()
    const receiver = await openReceiver()
    const secret = await addWebhook(databaseUrl, 'search', receiver.url)
    expect(await stdoutOf(webhooks(databaseUrl, 'test', 'search'))).toBe('answered 204\n')
    const [posted] = receiver.posted
    expect(posted?.body).toEqual({ type: 'test', timestamp: expect.any(String), data: [] })
    expect(posted && isSignedWith(secret, posted)).toBe(true)
    receiver.answerWith(status(500, { 'Retry-After': '5' }))
    const failed = await stdoutOf(webhooks(databaseUrl, 'test', 'search', '--json'), 1)
    expect(JSON.parse(failed)).toEqual({
      ...{ webhook: 'search', id: expect.any(String), status: 500, retry_after: '5' },
    })
  })

  test('says why there is no answer', async () => {
    const databaseUrl = await newDatabase()
    await addWebhook(databaseUrl, 'search', 'http://127.0.0.1:9/')
    const failed = await stdoutOf(webhooks(databaseUrl, 'test', 'search'), 1)
    expect(failed).toMatch(/^no answer: .*ECONNREFUSED/)
  })
})

test.each(['test', 'rotate', 'replay', 'resume', 'remove'])(
  'webhooks %s refuses a name that no webhook has',
  async command => {
    const databaseUrl = await newDatabase()
    await addWebhook(databaseUrl, 'search', URL)
    const refused = webhooks(databaseUrl, command, 'other')
    expect(await stderrOf(refused)).toBe('there is no webhook other; see webhooks list\n')
  },
)

test('webhooks rotate changes nothing if the secret cannot be printed', async () => {
  const databaseUrl = await newDatabase()
  await addWebhook(databaseUrl, 'search', URL)
  const before = await selectRows(databaseUrl, 'SELECT * FROM webhooks')
  const { code } = await runCommand({
    ...{ cwd: temporaryFolder(), env: { DATABASE_URL: databaseUrl } },
    ...{ args: ['webhooks', 'rotate', 'search'], outputFault: new Error('no space left') },
  })
  expect(code).toBe(1)
  expect(await selectRows(databaseUrl, 'SELECT * FROM webhooks')).toEqual(before)
})

test('webhooks rotate prints a new secret, replay, resume and remove what they did', async () => {
  const databaseUrl = await newDatabase()
  const secret = await addWebhook(databaseUrl, 'search', URL)
  const { code, stdout, stderr } = await webhooks(databaseUrl, 'rotate', 'search')
  expect([code, stderr]).toEqual([0, 'The previous secret signs too for 24 hours.\n'])
  expect(stdout).toMatch(/^whsec_/)
  expect(stdout.trimEnd()).not.toBe(secret)
  const printed = (...args: string[]) => stdoutOf(webhooks(databaseUrl, ...args, 'search'))
  expect(await printed('replay')).toBe('begins again: search\n')
  expect(await printed('resume')).toBe('resumed: search\n')
  expect(await printed('remove')).toBe('removed: search\n')
  expect(await stdoutOf(webhooks(databaseUrl, 'list'))).toBe('no webhooks\n')
})
