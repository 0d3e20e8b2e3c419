import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { ServiceError } from '../../../src/errors.ts'
import type { Ban } from '../../../src/limits/ban-store.ts'
import {
  answerBanOperations,
  type BanOperations,
  delegateBans,
} from '../../../src/ops/management/delegate-bans.ts'
import { connectGatedCalls } from '../../support/gated-calls.ts'
import { until } from '../../support/until.ts'

const ORDER = { rule: 'login', client: '203.0.113.9' }

/** Workers that note what they are asked to do. */
function openWorkers(count: number) {
  const events: string[] = []
  const workers = Array.from({ length: count }, (_, index) => {
    const { worker, first, end } = connectGatedCalls()
    onTestFinished(end)
    const done: string[] = []
    const state = { dies: false }
    answerBanOperations(worker.calls, {
      listBans: async () => {
        events.push('list')
        return { bans: [], hasMore: false }
      },
      addBan: async ({ rule, client }): Promise<Ban> => {
        if (state.dies) {
          end()
          await new Promise(() => {})
        }
        if (rule === 'unknown') throw new ServiceError('validation_failed')
        events.push('add')
        done.push(`add ${index + 1}`)
        return { rule: String(rule), clientKey: String(client), endsAt: 1000, lastsMs: 1000 }
      },
      liftBans: async () => {
        events.push('lift')
        done.push(`lift ${index + 1}`)
        return 3
      },
      followBans: async () => void done.push('follow'),
      savedBans: async () => {
        await turn()
        events.push('saved')
      },
    })
    return { ...worker, calls: first.calls, done, state, end }
  })
  const serving = workers.map(({ calls }) => calls)
  return { workers, serving, events, bans: delegateBans(() => serving) }
}

test('one worker works on the bans, and all follow before the answer', async () => {
  const { workers, bans } = openWorkers(3)
  expect(await bans.addBan(ORDER)).toEqual({
    rule: 'login',
    clientKey: ORDER.client,
    endsAt: 1000,
    lastsMs: 1000,
  })
  const done = workers.map(worker => worker.done)
  expect(done.flat().filter(each => each.startsWith('add'))).toHaveLength(1)
  for (const each of done) expect(each.at(-1)).toBe('follow')
  expect(await bans.liftBans({ rule: 'login' })).toBe(3)
  expect(done.flat().filter(each => each.startsWith('lift'))).toHaveLength(1)
  expect(done.flat().filter(each => each === 'follow')).toHaveLength(6)
  expect(await bans.listBans({ limit: 10 })).toEqual({ bans: [], hasMore: false })
})

test('a worker that is stopped does nothing, also when it goes on', async () => {
  const { workers, bans } = openWorkers(2)
  const [stopped, other] = workers
  stopped?.stop()
  await bans.addBan(ORDER)
  expect(other?.done).toEqual(['add 2', 'follow'])
  stopped?.goOn()
  await until(() => stopped?.done.includes('follow'))
  expect(stopped?.done).toEqual(['follow'])
})

test('another worker does what one has begun that dies', async () => {
  const { workers, serving, bans } = openWorkers(2)
  const [, other] = workers
  other?.stop()
  const [dying] = workers
  if (dying !== undefined) dying.state.dies = true
  const adding = bans.addBan(ORDER)
  await until(() => dying?.calls.isClosed())
  serving.shift()
  other?.goOn()
  expect(await adding).toMatchObject({ rule: 'login' })
  expect(other?.done).toEqual(['add 2', 'follow'])
})

test('what a worker refuses is not asked of another', async () => {
  const { workers, bans } = openWorkers(2)
  const adding = bans.addBan({ ...ORDER, rule: 'unknown' })
  await expect(adding).rejects.toMatchObject({ code: 'validation_failed' })
  expect(workers.flatMap(({ done }) => done)).toEqual([])
})

test.each([
  ['serves', () => openWorkers(0)],
  [
    'answers',
    () => {
      const opened = openWorkers(2)
      for (const worker of opened.workers) worker.stop()
      return opened
    },
  ],
])('while no worker %s, bans are unavailable', async (_, open) => {
  const { bans } = open()
  const unavailable = { code: 'storage_unavailable' }
  await expect(bans.addBan(ORDER)).rejects.toMatchObject(unavailable)
  await expect(bans.listBans({ limit: 1 })).rejects.toMatchObject(unavailable)
  await expect(bans.liftBans({})).rejects.toMatchObject(unavailable)
})

test.each<[string, (bans: BanOperations) => Promise<unknown>]>([
  ['list', bans => bans.listBans({ limit: 10 })],
  ['lift', bans => bans.liftBans({ rule: 'login' })],
  ['add', bans => bans.addBan(ORDER)],
])('%s: first the store gets the bans that all workers have made', async (name, ask) => {
  const { events, bans } = openWorkers(3)
  await ask(bans)
  expect(events.slice(0, 4)).toEqual(['saved', 'saved', 'saved', name])
})
