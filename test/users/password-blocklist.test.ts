import { createHash } from 'node:crypto'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openSha1File } from '../../src/users/passwords/blocklist.ts'
import { newUserBody } from '../support/builders.ts'
import {
  openTestApp,
  problemsOfStart,
  type TestApp,
  temporaryFolder,
} from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'
import { folderWith } from '../support/transfer.ts'

const TOO_COMMON = { password: ['is too common'] }

function listOf(content: string | Buffer): string {
  return join(folderWith(content, 'common.txt'), 'common.txt')
}

function sha1(password: string): string {
  return createHash('sha1').update(password).digest('hex').toUpperCase()
}

/** The lines of a list of SHA-1 in ascending order. */
function sha1Lines(...passwords: string[]): string[] {
  return passwords.map(sha1).sort()
}

const openWith = (content: string | Buffer, env = {}) =>
  openTestApp({ env: { PASSWORD_BLOCKLIST: listOf(content), ...env } })

async function create({ http }: TestApp, password: string | null) {
  const { status, body } = await http.post('/users').send(newUserBody({ password }))
  return status === 201 ? body.id : body.errors
}

describe('a list with a password on each line', () => {
  test.each([
    ['as it is', 'first horse\nsecond horse\nlast horse'],
    [
      'with CRLF, a byte order mark and an end',
      '\ufefffirst horse\r\n\r\nsecond horse\r\nlast horse\r\n',
    ],
  ])('%s refuses each of them, and nothing else', async (_what, text) => {
    const app = await openWith(text)
    for (const password of ['first horse', 'second horse', 'last horse', 'Last HORSE']) {
      expect([password, await create(app, password)]).toEqual([password, TOO_COMMON])
    }
    for (const password of [
      'first hors',
      'irst horse',
      'first horse ',
      'horse\u200bsecond',
      null,
    ]) {
      expect(await create(app, password)).toEqual(expect.any(Number))
    }
  })

  test('is without regard to case beyond ASCII too, and asked in NFKC', async () => {
    const app = await openWith('Zoe\u0308 \ufb01nds ΟΔΟΣ\nstraße 12345\n')
    for (const password of [
      'ZOË FINDS οδος',
      'zoë ﬁnds οδοσ',
      'ＺＯＥ\u0308 finds ΟΔΟΣ',
      'STRAẞE 12345',
    ]) {
      expect([password, await create(app, password)]).toEqual([password, TOO_COMMON])
    }
  })

  test.each(['', '\ufeff', '\n', '\r\n\r\n'])('%j blocks nothing', async text => {
    const app = await openWith(text, { PASSWORD_MIN_LENGTH: '1' })
    expect(await create(app, ' ')).toEqual(expect.any(Number))
  })
})

describe('a list of SHA-1', () => {
  const passwords = ['12345678', 'correct horse', 'Zoë finds horses', 'battery staple']
  const lines = sha1Lines(...passwords)

  test.each([
    ['in upper case', lines.join('\n')],
    ['in lower case with CRLF', lines.join('\r\n').toLowerCase()],
    ['with counts', lines.map((line, index) => `${line}:${10 ** index}\n`).join('')],
    ['with a byte order mark and a blank line at the end', `\ufeff${lines.join('\r\n')}\r\n\r\n`],
    ['where a line is twice', [...lines.slice(0, 1), ...lines].join('\n')],
  ])('%s refuses the passwords in NFKC, with regard to case, and nothing else', async (_, text) => {
    const app = await openWith(text)
    for (const password of [...passwords, 'Zoe\u0308 \ufb01nds horses']) {
      expect([password, await create(app, password)]).toEqual([password, TOO_COMMON])
    }
    for (const password of ['Correct horse', '12345679', sha1('12345678'), null]) {
      expect(await create(app, password)).toEqual(expect.any(Number))
    }
  })

  test.each([
    ['is no longer in order', (path: string) => writeFileSync(path, lines.toReversed().join('\n'))],
    ['is shorter', (path: string) => truncateSync(path, 60)],
  ])('that %s while the service runs lets nobody choose a password', async (_what, damage) => {
    const path = listOf(lines.join('\n'))
    const app = await openTestApp({ env: { PASSWORD_BLOCKLIST: path } })
    damage(path)
    const { status, body } = await app.http
      .post('/users')
      .send(newUserBody({ password: 'my horse' }))
    expect([status, body.reason]).toEqual([500, 'internal_error'])
    const line = app.logLines.find(({ msg }) => msg === 'request failed')
    expect(JSON.stringify(line)).toContain('PASSWORD_BLOCKLIST was')
    expect(JSON.stringify(app.logLines)).not.toContain('my horse')
    expect(await create(app, null)).toBe(1)
  })
})

const even = sha1Lines(...Array.from({ length: 20_000 }, (_, nth) => `password ${nth}`))

/** Almost all at the end. */
const uneven = ['0'.repeat(40), ...even.map(hash => `FFFFFF${hash.slice(6)}`).sort()]

const neighbour = (hash: string, step: bigint) =>
  (BigInt(`0x${hash}`) + step).toString(16).toUpperCase().padStart(40, '0')

test.each([
  ['lines of one length', even, () => ''],
  ['counts of other lengths', even, (index: number) => `:${10 ** (index % 9)}`],
  ['lines that are longer and longer', even, (at: number) => `:1${' '.repeat(at / 20)}`],
  ['hashes that are not spread evenly', uneven, () => ''],
])('a list of SHA-1 with %s is searched with few reads', async (_what, hashes, rest) => {
  const file = Buffer.from(hashes.map((hash, index) => `${hash}${rest(index)}`).join('\n'))
  let reads = 0
  const find = await openSha1File(
    async (position, bytes) => {
      reads++
      expect(position + bytes).toBeLessThanOrEqual(file.length)
      return file.subarray(position, position + bytes)
    },
    { start: 0, end: file.length, wrong: () => new Error('wrong') },
  )
  const has = async (hash: string) => {
    reads = 0
    const isFound = await find(hash)
    expect(reads).toBeLessThanOrEqual(Math.ceil(Math.log2(file.length / 4096)) + 1)
    return isFound
  }
  const [first = '', last = ''] = [hashes[0], hashes.at(-1)]
  const some = [first, last, ...hashes.filter((_, index) => index % 97 === 0)]
  for (const hash of some) expect([hash, await has(hash)]).toEqual([hash, true])
  for (const hash of some.filter(one => one !== first)) {
    expect([hash, await has(neighbour(hash, -1n))]).toEqual([hash, false])
  }
  expect(await has(neighbour(last, 1n))).toBe(false)
  expect(await has('F'.repeat(40))).toBe(false)
})

test('POST, PUT and PATCH name a common password with all that is wrong, in the order of the fields', async () => {
  const app = await openWith('correct horse')
  const ann = newUserBody({ email: 'ann@x.co' })
  await app.http.post('/users').send(ann).expect(201)
  const { id } = (await app.http.post('/users').send(newUserBody()).expect(201)).body
  const user = { password: 'Correct horse', email: 'ANN@x.co', name: ' ' }
  for (const answer of [
    await app.http.post('/users').send({ user }),
    await app.http.put(`/users/${id}`).send({ user }),
    await app.http.patch(`/users/${id}`).send({ user }),
  ]) {
    expect([answer.status, JSON.stringify(answer.body.errors)]).toEqual([
      422,
      `{"name":["can't be blank"],"email":["has already been taken"],"password":["is too common"]}`,
    ])
  }
  const missing = await app.http.put('/users/999').send({ user: { password: 'correct horse' } })
  expect([missing.status, missing.body.reason]).toEqual([422, 'validation_failed'])
  const short = await app.http.post('/users').send(newUserBody({ password: 'correct' }))
  expect(short.body.errors).toEqual({ password: ['is too short (minimum is 8 characters)'] })
})

test('what is stored is not looked at: it logs in, and is refused only when it is sent again', async () => {
  const before = await openTestApp()
  const user = { name: 'Ann', email: 'ann@x.co', password: 'correct horse' }
  const key = { 'Idempotency-Key': 'k'.repeat(20) }
  await before.http.post('/users').set(key).send({ user }).expect(201)
  await before.stop()
  const { http } = await openWith('correct horse', { DATABASE_URL: before.databaseUrl })
  const { email, password } = user
  await http.post('/password-verifications').send({ user: { email, password } }).expect(200)
  const rename = { user: { name: 'Bea' } }
  await http.put('/users/1').send(rename).expect(200)
  const { body } = await http.put('/users/1').send({ user: { password } }).expect(422)
  expect(body.errors).toEqual(TOO_COMMON)
  const replay = await http.post('/users').set(key).send({ user }).expect(201)
  expect(replay.headers['idempotency-replayed']).toBe('true')
})

describe('a start is refused by one line that names PASSWORD_BLOCKLIST', () => {
  const hashes = sha1Lines(...Array.from({ length: 3000 }, (_, index) => `password ${index}`))
  const swapped = [...hashes.slice(0, 1500), ...hashes.slice(1500).toReversed()].join('\n')
  const NO_ORDER = 'its lines are not all SHA-1 in ascending order'
  const NO_UTF8 = 'it is not in UTF-8, but perhaps in UTF-16: save it as UTF-8'

  test.each<[string, string, string | Buffer]>([
    ['in wrong order', NO_ORDER, swapped],
    ['in descending order', NO_ORDER, hashes.toReversed().join('\n')],
    ['with another line', NO_ORDER, `${hashes[0]}\ncorrect horse\n`],
    ['with a blank line inside', NO_ORDER, `${hashes[0]}\n\n${hashes[1]}\n`],
    ['with a long line', NO_ORDER, `${hashes[0]}\n${'x'.repeat(100_000)}\n`],
    ['with a cut line', NO_ORDER, hashes.join('\n').slice(0, -1)],
    ['in Latin-1', NO_UTF8, Buffer.from('straße 12345\n', 'latin1')],
    ['in UTF-16', NO_UTF8, Buffer.from('correct horse\n', 'utf16le')],
    [
      'too large',
      'its first line is no SHA-1, and as one password a line it is over 16 MiB',
      Buffer.alloc(16 * 1024 * 1024 + 1, 'correct horse\n'),
    ],
  ])('for a file %s', async (_what, why, content) => {
    const path = listOf(content)
    expect(await problemsOfStart({ env: { PASSWORD_BLOCKLIST: path } })).toEqual([
      `PASSWORD_BLOCKLIST was ${JSON.stringify(path)}, but ${why}; it may be the path of a text file: SHA-1 of passwords in ascending order, or one password a line, up to 16 MiB`,
    ])
  })

  test.each([
    ['nowhere.txt', 'there is no such file'],
    ['.', 'it is a folder'],
    ['/dev/null', 'it is not a regular file'],
  ])('for %s', async (path, why) => {
    expect(await problemsOfStart({ env: { PASSWORD_BLOCKLIST: path } })).toEqual([
      expect.stringContaining(`PASSWORD_BLOCKLIST was "${path}", but ${why}; it may be the path`),
    ])
  })

  test('beside those of other settings', async () => {
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, 'lists'))
    const env = { PASSWORD_BLOCKLIST: 'lists', LIMITS_FILE: 'nowhere.json', LOG_LEVEL: 'loud' }
    const { code, stderr } = await runCommand({ cwd, args: ['serve'], env })
    const names = stderr.split('\n').map(line => line.split(' ')[0])
    expect([code, names]).toEqual([1, ['LOG_LEVEL', 'LIMITS_FILE', 'PASSWORD_BLOCKLIST', '']])
  })
})
