import { appendFileSync, copyFileSync, mkdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { newUserBody } from '../support/builders.ts'
import { createRandom, inForm, report } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'

const TEARS = inForm({ short: 6, long: 200 })

const CHECKPOINTED_USERS = 5

/** Too few to start a checkpoint: a WAL that was synced and copied into the file cannot be torn. */
const USERS_IN_WAL = inForm({ short: 20, long: 60 })

/** The files of a killed service: some users are in the file, others in the WAL, each up to a number of bytes. */
async function killedService() {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  const first = await spawnService({ cwd })
  const emails: string[] = []
  const create = async (url: string) => {
    const email = `user${emails.length + 1}@x.co`
    expect((await ask({ url }, 'POST /users', newUserBody({ email }))).status).toBe(201)
    emails.push(email)
  }
  for (let count = 0; count < CHECKPOINTED_USERS; count++) await create(first.url)
  first.process.kill('SIGTERM')
  await first.exited
  const second = await spawnService({ cwd })
  const walBytes: number[] = []
  for (let count = 0; count < USERS_IN_WAL; count++) {
    await create(second.url)
    walBytes.push(statSync(`${path}-wal`).size)
  }
  second.process.kill('SIGKILL')
  await second.exited
  return { cwd, path, emails, walBytes }
}

/** The users that a start finds in a copy of `path` after `tear` has changed its WAL. */
async function usersAfter(path: string, tear: (wal: string) => void): Promise<string[]> {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'data'))
  const copy = join(folder, 'data', 'users.db')
  copyFileSync(path, copy)
  copyFileSync(`${path}-wal`, `${copy}-wal`)
  tear(`${copy}-wal`)
  const database = await openSqlite({ path: copy, now: Date.now })
  try {
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    return database.prepare<[], string>('SELECT email FROM users ORDER BY id').pluck().all()
  } finally {
    database.close()
  }
}

test('after a lost or torn WAL, or garbage behind it, all users up to that place exist, in order', async () => {
  const { cwd, path, emails, walBytes } = await killedService()
  const random = createRandom()
  const usersBefore = (length: number) =>
    emails.slice(0, CHECKPOINTED_USERS + walBytes.filter(bytes => bytes <= length).length)
  expect(await usersAfter(path, () => {})).toEqual(emails)
  expect(await usersAfter(path, wal => appendFileSync(wal, 'garbage '.repeat(1000)))).toEqual(
    emails,
  )
  const found: number[] = []
  for (let tear = 0; tear < TEARS; tear++) {
    const length = Math.floor(random() * (walBytes.at(-1) ?? 0))
    const garbage = Buffer.from(Array.from({ length: 9000 }, () => random() * 256))
    const users = await usersAfter(path, wal => {
      truncateSync(wal, length)
      if (tear % 2 === 0) appendFileSync(wal, garbage)
    })
    expect(users).toEqual(usersBefore(length))
    found.push(users.length)
  }
  report('a torn WAL', { tears: TEARS, fewest: Math.min(...found), most: Math.max(...found) })

  expect(await usersAfter(path, rmSync)).toEqual(usersBefore(0))
  rmSync(`${path}-wal`)
  const service = await spawnService({ cwd })
  expect((await ask(service, 'GET /users')).body).toHaveLength(CHECKPOINTED_USERS)
  expect((await ask(service, 'POST /users', newUserBody())).status).toBe(201)
})
