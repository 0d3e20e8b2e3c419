import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openPlace } from '../../support/command-place.ts'
import { emailsIn, filesOf, modeOf } from '../../support/databases.ts'
import { ask } from '../../support/json-requests.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { stdoutOf } from '../../support/run-command.ts'

test('backup of a running service is one file of mode 600 with all acknowledged users, which can be served', async () => {
  const place = openPlace({ users: 1 })
  const earlier = emailsIn(place.path)
  const service = await openTestApp({ env: { DATABASE_URL: place.path } })
  const emails = ['one@x.co', 'two@x.co']
  for (const email of emails) await ask(service, 'POST /users', newUserBody({ email }))
  expect(await stdoutOf(place.run('backup', 'copy.db'))).toMatch(/^copy\.db: [\d.]+ MB, checked\n$/)
  expect(emailsIn(place.file)).toEqual([...earlier, ...emails])
  expect(filesOf(place.file)).toEqual(['copy.db'])
  expect(modeOf(place.file)).toBe(0o600)
  // Not in WAL, and so readable in a read-only folder: https://www.sqlite.org/fileformat.html#file_format_version_numbers
  expect([...readFileSync(place.file).subarray(18, 20)]).toEqual([1, 1])
  expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
  const restored = await openTestApp({ env: { DATABASE_URL: place.file } })
  expect((await ask(restored, 'GET /users')).body).toHaveLength(3)
})

test('a backup that is put in the place of its database by hand has no entity tag of the later lists', async () => {
  const place = openPlace({ users: 1 })
  await stdoutOf(place.run('backup', 'copy.db'))
  const tags: unknown[] = []
  for (const name of ['Lost', 'New']) {
    const service = await openTestApp({ env: { DATABASE_URL: place.path } })
    await ask(service, 'POST /users', newUserBody({ name }))
    tags.push((await ask(service, 'GET /users')).headers.get('ETag'))
    await service.stop()
    copyFileSync(place.file, place.path)
  }
  expect(tags[0]).not.toBe(tags[1])
})

test('backup replaces an older one, whatever its mode, removes the partial files of killed ones only, and prints JSON', async () => {
  const place = openPlace({ users: 3 })
  writeFileSync(place.file, 'older', { mode: 0o644 })
  const ofRunning = `copy.db.${process.ppid}-0123abcd.partial`
  const staying = [ofRunning, 'copy.db.note.partial']
  // No process has such a high number.
  const ofKilled = 'copy.db.4194305-0123abcd.partial'
  for (const name of [...staying, ofKilled, `${ofKilled}-journal`]) {
    writeFileSync(join(place.cwd, name), 'half')
  }
  const stdout = await stdoutOf(place.run('backup', 'copy.db', '--json'))
  expect(JSON.parse(stdout)).toEqual({ file: 'copy.db', bytes: statSync(place.file).size })
  expect(emailsIn(place.file)).toHaveLength(3)
  expect(modeOf(place.file)).toBe(0o600)
  expect(filesOf(place.file)).toEqual(['copy.db', ...staying])
})

test.each([
  ['none/copy.db', /^".*none\/copy\.db": its folder does not exist\n$/],
  ['data', /^".*data": it is not a regular file\n$/],
  ['data/users.db', /: it is the database itself\n$/],
  ['data/users.db-wal', /: it is the database itself\n$/],
])('backup to %s fails with one line, and changes nothing', async (file, line) => {
  const place = openPlace({ users: 3 })
  const before = readFileSync(place.path, 'latin1')
  expect(await place.run('backup', file)).toEqual({
    ...{ code: 1, stdout: '', stderr: expect.stringMatching(line) },
  })
  expect(readFileSync(place.path, 'latin1')).toBe(before)
  expect(filesOf(place.path)).toEqual(['users.db'])
})
