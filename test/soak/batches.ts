import { setTimeout as sleep } from 'node:timers/promises'
import { ask, countByName } from '../support/json-requests.ts'
import type { Site } from './site.ts'

/** Users in one request. */
const USERS = 50

/** Between two requests. */
const PAUSE_MS = 2000

/** Requests that create many users, of which some are deleted by one request: each must be done wholly or not at all. */
export function startBatches({ services, headers }: Site) {
  /** How many users of each name were acknowledged; `undefined` where no answer came. */
  const expected = new Map<string, number | undefined>()
  const problems: string[] = []
  let isOver = false

  async function send(url: string, name: string): Promise<void> {
    expected.set(name, undefined)
    const users = Array.from({ length: USERS }, (_, nth) => ({
      ...{ name, email: `${name}-${nth}@many.example.com` },
    }))
    const created = await ask({ url }, 'POST /users', { users }, headers)
    if (created.status === 503) return
    if (created.status !== 200) throw new Error(`many users: ${created.status}`)
    expected.set(name, USERS)
    const ids: number[] = created.body.data.map(({ user }: { user: { id: number } }) => user.id)
    if (Math.random() < 0.5) return
    expected.set(name, undefined)
    const deleted = await ask({ url }, `DELETE /users?id=${ids}`, undefined, headers)
    if (deleted.status === 200) expected.set(name, 0)
  }

  async function run(): Promise<void> {
    for (let serial = 0; !isOver; serial++) {
      const { url } = services[serial % services.length] as Site['services'][number]
      // A service may be down. Anything else than that must be an answer.
      await send(url, `many${serial}`).catch(error => {
        if (!(error instanceof TypeError)) problems.push(String(error))
      })
      await sleep(PAUSE_MS)
    }
  }

  const running = run()
  return {
    /** Ends it. Returns what was wrong, and how many requests were acknowledged. */
    stop: async () => {
      isOver = true
      await running
      const found = await countByName(String(services[0]?.url), headers)
      for (const [name, count] of expected) {
        const there = found.get(name) ?? 0
        const isRight = count === undefined ? there === 0 || there === USERS : there === count
        if (!isRight) problems.push(`${there} users of ${name}, not ${count}`)
      }
      const acknowledged = [...expected.values()].filter(count => count !== undefined).length
      return { problems, acknowledged }
    },
  }
}
