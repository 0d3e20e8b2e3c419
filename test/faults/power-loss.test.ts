import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { createRandom, inForm, report } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { type DiskRecord, type DiskRecorder, recorderOrSkip } from './recorded-disk.ts'
import { createUnreliableDisk, type UnreliableDisk } from './unreliable-disk.ts'
import { createWriter, type Writer } from './write-load.ts'
import { findUsers, type WrittenUser } from './written-users.ts'

const MOMENTS = inForm({ short: 40, long: 1000 })

const WRITES_A_LIFE = inForm({ short: 900, long: 4000 })

const CLIENTS = 16

/** After each of this many moments, the whole service is started once. */
const STARTED_EVERY = inForm({ short: 20, long: 40 })

const DATABASE = join('data', 'users.db')

/** A process killed in the middle of a call would do the call or not, and would not record it. */
const ENDS = ['SIGTERM', 'SIGKILL', 'SIGTERM'] as const

test('a power cut at any moment loses no acknowledged write', async context => {
  const recorder = recorderOrSkip(context)
  const random = createRandom()
  const startedAt = performance.now()
  const { writers } = await recordLives(recorder, random)
  const users = writers.flatMap(writer => writer.users)
  const records = recorder.records()
  const chosen = chooseMoments(records, random)
  const figures = { moments: 0, starts: 0, walSyncs: 0, databaseSyncs: 0 }
  const disk = createUnreliableDisk()
  for (const [index, record] of records.entries()) {
    disk.apply(record)
    if (record.kind === 'sync' && record.path.endsWith('-wal')) figures.walSyncs++
    if (record.kind === 'sync' && record.path === DATABASE) figures.databaseSyncs++
    for (let times = chosen[index] ?? 0; times > 0; times--) {
      const isStarted = figures.moments++ % STARTED_EVERY === 0
      if (isStarted) figures.starts++
      const before = records[index + 1]?.endedAt
      const problems = await problemsAfterPowerLoss({ disk, users, random, before, isStarted })
      expect({ moment: index, after: record.kind, of: record.path, problems }).toEqual(
        expect.objectContaining({ problems: [] }),
      )
    }
  }
  expect(figures.databaseSyncs).toBeGreaterThan(ENDS.length)
  report('power lost', {
    ...figures,
    records: records.length,
    acknowledged: writers.reduce((sum, { acknowledged }) => sum + acknowledged, 0),
    seconds: Math.round((performance.now() - startedAt) / 1000),
  })
})

/** Starts the service on an empty folder and then again on its files, each time with new clients. */
async function recordLives(recorder: DiskRecorder, random: () => number) {
  const cwd = temporaryFolder()
  const owners = new Map<number, WrittenUser>()
  const writers: Writer[] = []
  for (const [life, end] of ENDS.entries()) {
    const service = await spawnService({ cwd, env: recorder.environment(cwd) })
    const own = Array.from({ length: CLIENTS }, (_, client) =>
      createWriter({ label: `${life}.${client}`, random, owners }),
    )
    await Promise.all(own.map(writer => writer.write(service.port, WRITES_A_LIFE / CLIENTS)))
    writers.push(...own)
    service.process.kill(end)
    expect((await service.exited).code).toBe(end === 'SIGTERM' ? 0 : null)
  }
  return { writers }
}

/** The weight of a power cut after each record: half of all cuts follow a record of a rare kind. */
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
    // A cut just before a rare record is as interesting as one after it.
    const chosen = Math.max(0, index - (random() < 0.5 ? 1 : 0))
    times[chosen] = (times[chosen] ?? 0) + 1
  }
  return times
}

interface PowerLoss {
  readonly disk: UnreliableDisk
  readonly users: readonly WrittenUser[]
  readonly random: () => number
  readonly before: bigint | undefined
  readonly isStarted: boolean
}

/** What is missing, damaged or too much after the service has opened the files of the disk. */
async function problemsAfterPowerLoss(loss: PowerLoss): Promise<string[]> {
  const { disk, users, random, before, isStarted } = loss
  const cwd = temporaryFolder()
  try {
    disk.losePower(cwd, random)
    const service = isStarted ? await spawnService({ cwd }) : undefined
    const database = await openSqlite({ path: join(cwd, DATABASE), now: Date.now })
    const { problems } = findUsers(database, users, before === undefined ? {} : { before })
    database.close()
    service?.process.kill('SIGKILL')
    await service?.exited
    return problems
  } finally {
    rmSync(cwd, { recursive: true })
  }
}
