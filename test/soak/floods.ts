import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../support/until.ts'
import { LISTS_A_MINUTE, STRIKES } from './rules.ts'
import type { TrafficParts } from './traffic.ts'

const FLOOD = 100

/** For how long after Redis was late the counts of a rule may be of one process. */
const LOCAL_COUNTS_MS = 60_000

const BAN_PATIENCE_MS = 30_000

/** Floods come from addresses that nothing else comes from. */
export function createFloods({ site, client, windows, problems }: TrafficParts) {
  let serial = 0

  function newAddress(): string {
    serial++
    return `198.${18 + (serial >> 16)}.${(serial >> 8) & 255}.${serial & 255}`
  }

  /** Whether rules may not be counted together, or not be there. */
  function isDisturbed(from: number): boolean {
    const faults = ['redis', 'database', 'restart', 'kill'] as const
    const since = from - LOCAL_COUNTS_MS
    const isLocal = site.services.some(service => service.countedLocallyAt() > since)
    return isLocal || faults.some(fault => windows.met(fault, from))
  }

  return {
    /** More lists than a client may have, through both services at once. */
    async flood(): Promise<void> {
      const from = Date.now()
      const list = { method: 'GET', path: '/users?per_page=1', route: '/users' }
      const asked = { ...list, client: newAddress() }
      const replies = await Promise.all(Array.from({ length: FLOOD }, () => client.ask(asked)))
      const statuses = replies.flatMap(reply => (reply.kind === 'answer' ? reply.status : []))
      const passed = statuses.filter(status => status === 200).length
      const refused = statuses.filter(status => status === 429).length
      if (passed + refused !== statuses.length) {
        problems.note('a flood', `${passed} passed, ${refused} refused, of ${statuses.length}`)
      }
      if (isDisturbed(from)) return
      // The minute may change meanwhile.
      if (passed < LISTS_A_MINUTE || passed > 2 * LISTS_A_MINUTE) {
        problems.note('a limit for both services', `${passed} of ${FLOOD} passed`)
      }
    },

    /** A scanner asks one service until it is banned; then the other one must deny it too. */
    async scan(): Promise<void> {
      const address = newAddress()
      const from = Date.now()
      const [one, other] = serial % 2 === 0 ? site.services : site.services.toReversed()
      const ask = (path: string, route: string, service = one) =>
        client.ask({ method: 'GET', path, route, client: address, service })
      for (let strike = 0; strike < STRIKES; strike++) {
        const reply = await ask('/wp-login', '')
        if (reply.kind === 'answer' && reply.status !== 403) {
          problems.note('wrong answer to a scanner', `${reply.status}`)
        }
      }
      for (const service of [one, other]) {
        const isBanned = await until(async () => {
          const reply = await ask('/users/1', '/users/{id}', service)
          if (isDisturbed(from)) return 'perhaps'
          if (reply.kind === 'answer' && reply.status === 403) return 'yes'
          if (Date.now() - from > BAN_PATIENCE_MS) return 'no'
          await sleep(200)
          return undefined
        })
        if (isBanned === 'no') problems.note('a ban does not hold', `${service?.name} ${address}`)
      }
    },
  }
}
