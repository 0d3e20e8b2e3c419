import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { createRandom, inForm, report } from '../support/faults.ts'
import { ask, readAllUsers } from '../support/json-requests.ts'
import { until, untilPasses } from '../support/until.ts'
import { type Follower, followPages, followStream } from './followers.ts'

const ROUNDS = inForm({ short: 3, long: 60 })

const WRITERS = 6

export interface FollowedServices {
  /** The services that are up. */
  readonly urls: () => readonly string[]
  /** What happens in the middle of each round, such as a kill. */
  readonly disturb: (round: number) => Promise<void>
  /** Something else that writes, such as a transaction, until it resolves. */
  readonly writeBeside?: (random: () => number) => Promise<void>
}

/** Random writers, and followers of each kind, whose copies must be exactly the users of the database in the end. */
export async function expectRightCopies({ urls, disturb, writeBeside }: FollowedServices) {
  const random = createRandom()
  const options = { urls, random }
  const followers: Follower[] = [0, 0, 1].map(wait => followPages(options, wait))
  followers.push(followStream(options))
  let isWriting = true
  let serial = 0

  async function write(): Promise<void> {
    const all = urls()
    const service = { url: String(all[Math.floor(random() * all.length)]) }
    const path = `/users/${1 + Math.floor(random() * Math.max(1, serial))}`
    const dice = random()
    const email = `u${serial++}@x.co`
    if (dice < 0.4) await ask(service, 'POST /users', { user: { name: 'A', email } })
    else if (dice < 0.8) await ask(service, `PUT ${path}`, { user: { name: `N${random()}` } })
    else await ask(service, `DELETE ${path}`)
  }

  async function writeOn(): Promise<void> {
    while (isWriting) await write().catch(() => sleep(10))
  }

  async function writeOnBeside(): Promise<void> {
    while (isWriting) await writeBeside?.(random).catch(() => sleep(10))
  }

  const writing = [
    ...Array.from({ length: WRITERS }, writeOn),
    ...(writeBeside === undefined ? [] : [writeOnBeside(), writeOnBeside()]),
  ]
  for (let round = 0; round < ROUNDS; round++) {
    const enough = serial + 150
    await until(() => serial >= enough)
    await disturb(round)
  }
  isWriting = false
  await Promise.all(writing)
  const users = await readAllUsers(String(urls()[0]))
  expect(users.size).toBeGreaterThan(20)
  const expectCopies = () => {
    for (const { copy } of followers) {
      const shown = [...copy].map(([id, user]) => [id, JSON.stringify(user)] as const)
      expect(new Map(shown)).toEqual(users)
    }
  }
  // What was missed never comes. Nothing else is written, so nothing may follow.
  await untilPasses(expectCopies, 50)
  await sleep(500)
  for (const follower of followers) await follower.stop()
  expectCopies()
  const restarts = followers.map(follower => follower.restarts())
  report('followed', { writes: serial, users: users.size, restarts })
  return restarts
}
