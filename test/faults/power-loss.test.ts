import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { newUserBody } from '../support/builders.ts'
import { filesOf, makeDatabase } from '../support/databases.ts'
import { createRandom, inForm, report } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { canFailDisks } from '../support/programs.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { createClients } from './clients.ts'
import { createUnreliableDisk, type DiskRecord, recordDisk } from './recorded-disk.ts'

const MOMENTS = inForm({ short: 40, long: 1000 })

const WRITES_A_CLIENT = inForm({ short: 56, long: 250 })

const TIMES_A_RECORD = inForm({ short: 3, long: 100 })

const OLD = ['one@x.co', 'two@x.co', 'three@x.co']

const NEW_USERS = 5

const DATABASE = join('data', 'users.db')

/** A process killed in the middle of a call would do the call or not, and would not record it. */
const ENDS = ['SIGTERM', 'SIGKILL', 'SIGTERM'] as const

describe.skipIf(!canFailDisks)('a loss of power', () => {
  test('at any moment loses no acknowledged write', async () => {
    const random = createRandom()
    const cwd = temporaryFolder()
    const recorder = recordDisk(cwd)
    const clients = createClients({ random })
    for (const end of ENDS) {
      const service = await spawnService({ cwd, env: recorder.env })
      await clients.write(service.port, WRITES_A_CLIENT)
      expect((await service.end(end)).code).toBe(end === 'SIGTERM' ? 0 : null)
    }
    expect(clients.problems).toEqual([])

    const records = recorder.records()
    const chosen = chooseMoments(records, random)
    const disk = createUnreliableDisk()
    for (const [moment, record] of records.entries()) {
      disk.apply(record)
      for (let times = chosen[moment] ?? 0; times > 0; times--) {
        const left = temporaryFolder()
        disk.losePower(left, random)
        const before = records[moment + 1]?.endedAt
        const problems = await problemsIn(left, url => clients.compare(url, { before }))
        const { kind, path } = record
        expect({ moment, kind, path, problems }).toEqual({ moment, kind, path, problems: [] })
      }
    }
    const syncs = records.filter(({ kind, path }) => kind === 'sync' && path === DATABASE).length
    expect(syncs).toBeGreaterThan(ENDS.length)
    const acknowledged = clients.acknowledged()
    report('power lost', { moments: MOMENTS, records: records.length, syncs, acknowledged })
  })

  test('during a restore leaves all of the old database or all of the new one, and never loses the old one', async () => {
    const random = createRandom()
    const cwd = temporaryFolder()
    const recorder = recordDisk(cwd)
    const killed = await spawnService({ cwd, env: recorder.env })
    for (const email of OLD) await ask(killed, 'POST /users', newUserBody({ email }))
    await killed.end('SIGKILL')
    const backup = join(temporaryFolder(), 'copy.db')
    makeDatabase(backup, { users: NEW_USERS })
    const served = recorder.records().length
    const restored = await run({ cwd, env: recorder.env, args: ['restore', backup] })
    expect(restored).toMatchObject({ code: 0, stderr: '' })

    const disk = createUnreliableDisk()
    for (const [moment, record] of recorder.records().entries()) {
      disk.apply(record)
      for (let times = moment < served - 1 ? 0 : TIMES_A_RECORD; times > 0; times--) {
        const left = temporaryFolder()
        disk.losePower(left, random)
        const path = join(left, DATABASE)
        const emails = stateOf(path)
        const kept = filesOf(path).filter(name => name.includes('.replaced-'))
        const olds = kept.map(name => stateOf(join(left, 'data', name)))
        const { kind, path: of } = record
        const isNew = emails.length === NEW_USERS
        expect({ moment, kind, of, emails: isNew ? OLD : emails }).toMatchObject({ emails: OLD })
        if (isNew) expect({ moment, kind, of, olds }).toMatchObject({ olds: [OLD] })
      }
    }
  })

  test.each(['users.db', 'link.db'])(
    'after kill -9: the next start syncs the WAL of data/%s before anything else',
    async name => {
      const cwd = temporaryFolder()
      const killed = await spawnService({ cwd })
      await killed.end('SIGKILL')
      symlinkSync('users.db', join(cwd, 'data', 'link.db'))
      const recorder = recordDisk(cwd)
      await spawnService({ cwd, env: { ...recorder.env, DATABASE_URL: join('data', name) } })
      expect(recorder.records()[0]).toMatchObject({ kind: 'sync', path: `${DATABASE}-wal` })
    },
  )
})

/** How often the power goes after each record: half of the times around one of a rare kind. */
function chooseMoments(records: readonly DiskRecord[], random: () => number): number[] {
  const times = records.map(() => 0)
  const all = [...records.keys()]
  const rare = all.filter(index => {
    const { kind, path } = records[index] as DiskRecord
    return kind !== 'write' && (kind !== 'sync' || !path.endsWith('-wal'))
  })
  for (let moment = 0; moment < MOMENTS; moment++) {
    const choices = moment % 2 === 0 ? all : rare
    const index = choices[Math.floor(random() * choices.length)] as number
    const chosen = Math.max(0, index - (random() < 0.5 ? 1 : 0))
    times[chosen] = (times[chosen] ?? 0) + 1
  }
  return times
}

/** What a service finds that starts on the files of a folder. */
async function problemsIn(cwd: string, compare: (url: string) => Promise<string[]>) {
  const ends: (() => unknown)[] = []
  const path = join(cwd, DATABASE)
  const app = await openTestApp({ env: { DATABASE_URL: path } }, end => ends.unshift(end))
  const problems = await compare(app.url)
  for (const end of ends) await end()
  const database = new Database(path)
  const integrity = database.pragma('integrity_check', { simple: true })
  database.close()
  return [...problems, ...(integrity === 'ok' ? [] : [integrity])]
}

/** The e-mails in a sound database, after its recovery. */
function stateOf(path: string): string[] {
  const database = new Database(path, { fileMustExist: true })
  try {
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    return database.prepare<[], string>('SELECT email FROM users ORDER BY id').pluck().all()
  } finally {
    database.close()
  }
}
