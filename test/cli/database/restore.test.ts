import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type CommandPlace, openPlace } from '../../support/command-place.ts'
import { copyHalfWritten, overwritePages } from '../../support/damage.ts'
import { emailsIn, filesOf, makeDatabase, modeOf } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { stderrOf, stdoutOf } from '../../support/run-command.ts'
import { until } from '../../support/until.ts'
import { addWebhook, listWebhooks, openReceiver } from '../../support/webhook-receiver.ts'

const OLD_USERS = 7

const NEW_USERS = 5

/** A database of `old` users, and a backup of another one. */
function placeWithBackup({ old = OLD_USERS } = {}) {
  const place = openPlace(old > 0 ? { users: old } : undefined)
  mkdirSync(join(place.cwd, 'data'), { recursive: true })
  makeDatabase(place.file, { users: NEW_USERS })
  return place
}

function restore({ run }: CommandPlace, ...args: string[]) {
  return run('restore', 'copy.db', ...args)
}

function keptIn({ path, cwd }: CommandPlace): string[] {
  const kept = filesOf(path).filter(name => name.includes('.replaced-'))
  return kept.map(name => join(cwd, 'data', name))
}

test('restore replaces the database with the backup, keeps the previous one, and says where', async () => {
  const place = placeWithBackup()
  chmodSync(place.path, 0o644)
  const before = readFileSync(place.file)
  const stdout = await stdoutOf(restore(place))
  const [kept = ''] = keptIn(place)
  expect(stdout).toBe(`./data/users.db: restored from copy.db\n${kept}: the previous database\n`)
  expect(kept).toMatch(/users\.db\.replaced-\d{8}T\d{6}Z$/)
  expect(filesOf(place.path)).toHaveLength(2)
  expect([emailsIn(kept).length, emailsIn(place.path).length]).toEqual([OLD_USERS, NEW_USERS])
  expect([modeOf(place.path), modeOf(kept)]).toEqual([0o600, 0o600])
  expect(readFileSync(place.file).equals(before)).toBe(true)
  expect((await restore(place)).code).toBe(0)
  expect(keptIn(place)).toHaveLength(2)
})

test('restore leaves webhooks disabled, and says how many', async () => {
  const place = placeWithBackup()
  await addWebhook(place.path, 'search', 'https://example.com/')
  expect((await place.run('backup', 'with.db')).code).toBe(0)
  const stdout = await stdoutOf(place.run('restore', 'with.db'))
  expect(stdout).toContain('1 webhook disabled until `webhooks resume NAME`\n')
  expect(await listWebhooks(place.path)).toMatchObject([
    { name: 'search', state: 'disabled', last_error: 'its database was restored' },
  ])
})

test('the receiver of a restored webhook is told to forget all users first, in each order of commands', async () => {
  for (const commands of [['resume'], ['replay', 'resume'], ['resume', 'replay']]) {
    const place = placeWithBackup()
    const receiver = await openReceiver()
    await addWebhook(place.path, 'search', receiver.url, '--from', 'start')
    await stdoutOf(place.run('backup', 'with.db'))
    await stdoutOf(place.run('restore', 'with.db'))
    for (const command of commands) await stdoutOf(place.run('webhooks', command, 'search'))
    const app = await openTestApp({ env: { DATABASE_URL: place.path } })
    await until(() => receiver.posted.length === 2)
    const types = receiver.posted.map(({ body }) => body.type)
    expect(types).toEqual(['users.reset', 'users.changed'])
    await app.stop()
  }
})

test('restore creates what is missing, and takes an empty file for no database', async () => {
  const place = placeWithBackup({ old: 0 })
  rmSync(join(place.cwd, 'data'), { recursive: true })
  const stdout = './data/users.db: restored from copy.db\n'
  expect(await restore(place)).toEqual({ code: 0, stdout, stderr: '' })
  expect([modeOf(join(place.cwd, 'data')), modeOf(place.path)]).toEqual([0o700, 0o600])
  writeFileSync(place.path, '')
  expect(JSON.parse((await restore(place, '--json')).stdout)).toMatchObject({ kept: null })
  expect(filesOf(place.path)).toEqual(['users.db'])
  expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
})

test('a restored list has no entity tag that a client has cached, also of the same backup', async () => {
  const place = placeWithBackup()
  const tags: unknown[] = []
  for (let times = 0; times < 3; times++) {
    const service = await openTestApp({ env: { DATABASE_URL: place.path } })
    tags.push((await ask(service, 'GET /users')).headers.get('ETag'))
    await service.stop()
    expect((await restore(place)).code).toBe(0)
  }
  expect(new Set(tags)).toHaveLength(3)
})

test('restore repairs a database whose pages are damaged, and keeps it', async () => {
  const place = placeWithBackup({ old: 2000 })
  overwritePages(place.path, 'garbage ', { from: 60, to: 87 })
  expect((await restore(place)).code).toBe(0)
  expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
  expect(readFileSync(keptIn(place)[0] ?? '', 'latin1')).toContain('garbage garbage')
})

test.each([OLD_USERS, 0])(
  'restore replaces the file of %i users that a link leads to',
  async old => {
    const place = placeWithBackup({ old: 0 })
    const real = join(place.cwd, 'real.db')
    if (old > 0) makeDatabase(real, { users: old })
    symlinkSync(real, place.path)
    expect((await restore(place)).code).toBe(0)
    expect(emailsIn(real)).toHaveLength(NEW_USERS)
    expect(lstatSync(place.path).isSymbolicLink()).toBe(true)
    expect(filesOf(place.path)).toEqual(['users.db'])
  },
)

test('restore undoes an unfinished write of the previous database in that one, not in the new one', async () => {
  const place = placeWithBackup({ old: 0 })
  const whole = join(place.cwd, 'whole.db')
  makeDatabase(whole, { users: OLD_USERS })
  copyHalfWritten(whole, place.path)
  expect((await restore(place)).code).toBe(0)
  const [kept = ''] = keptIn(place)
  expect(filesOf(place.path)).toHaveLength(2)
  expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
  expect(emailsIn(kept)).toHaveLength(OLD_USERS)
  expect(readFileSync(kept).length).toBe(readFileSync(whole).length)
})

test('restore removes a second name that a killed one has given to the database, and no other file', async () => {
  const place = placeWithBackup()
  const names = ['20200101T000000Z', '20200102T000000Z'].map(
    time => `${place.path}.replaced-${time}`,
  )
  const [second = '', earlier = ''] = names
  linkSync(place.path, second)
  writeFileSync(earlier, 'earlier')
  expect((await restore(place)).code).toBe(0)
  expect(keptIn(place)).toEqual([earlier, expect.not.stringContaining(second)])
  expect(emailsIn(place.path)).toHaveLength(NEW_USERS)
})

const IN_WAL = /copy\.db": a part of it is in .*copy\.db-wal: take a `backup` of it$/

test.each<[why: string, line: RegExp, prepare: (place: CommandPlace) => unknown, file?: string]>([
  ['no file', /^".*copy\.db": there is no such file$/, ({ file }) => rmSync(file)],
  ['an empty file', /^".*copy\.db": it is empty$/, ({ file }) => writeFileSync(file, '')],
  ['a folder', /^".*data": it is not a regular file$/, () => undefined, 'data'],
  ['the database itself', /: it is the database itself$/, () => undefined, 'data/users.db'],
  ['a part that is in a WAL', IN_WAL, ({ file }) => writeFileSync(`${file}-wal`, 'x')],
  [
    'a database that cannot be read',
    /^DATABASE_URL .*: it cannot be read, .* move that file/,
    ({ path }) => overwritePages(path, 'garbage ', { from: 0 }),
  ],
  [
    'a WAL without its database',
    /^DATABASE_URL .*users\.db-wal exists without the database: move it away$/,
    ({ path }) => {
      rmSync(path)
      writeFileSync(`${path}-wal`, 'x')
    },
  ],
])(
  'restore with %s fails with one line, and changes nothing',
  async (_why, line, prepare, file) => {
    const place = placeWithBackup()
    prepare(place)
    const content = () => existsSync(place.path) && readFileSync(place.path, 'latin1')
    const before = [content(), filesOf(place.path)]
    const stderr = await stderrOf(place.run('restore', file ?? 'copy.db'))
    expect(stderr).toMatch(/^[^\n]+\n$/)
    expect(stderr.trimEnd()).toMatch(line)
    expect([content(), filesOf(place.path)]).toEqual(before)
  },
)
