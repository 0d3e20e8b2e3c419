import { nextPath } from './client.ts'
import { isCertain } from './ledger.ts'
import type { TrafficParts } from './traffic.ts'

/** Reads all users by cursors. Whoever existed during the whole walk comes exactly once. */
export async function walk({ client, ledger, problems, windows }: TrafficParts): Promise<number> {
  const from = Date.now()
  // Those that are in use may be deleted during the walk, and so may the others: they are looked at again at its end.
  const existed = ledger.free.filter(account => isCertain(account) && account.id !== undefined)
  const seen = new Set<number>()
  let previous = 0
  let path: string | undefined = '/users?per_page=1000'
  let failures = 0
  while (path !== undefined) {
    const reply = await client.ask({ method: 'GET', path, route: '/users', key: 'reader' })
    if (reply.kind !== 'answer') {
      if (++failures > 100) throw new Error('a walk makes no progress')
      continue
    }
    if (reply.status !== 200) {
      problems.note('wrong answer to a walk', `${reply.status} ${reply.text}`)
      return seen.size
    }
    for (const { id } of reply.json as { id: number }[]) {
      if (id <= previous) problems.note('a walk goes back', `${id} after ${previous}`)
      previous = id
      seen.add(id)
    }
    path = nextPath(reply)
  }
  if (windows.met('database', from)) return seen.size
  const free = new Set(ledger.free)
  for (const account of existed) {
    const isThereStill = free.has(account) && isCertain(account) && account.names[0] !== undefined
    if (isThereStill && !seen.has(account.id as number)) {
      problems.note('a walk misses a user', `${account.id}`)
    }
  }
  return seen.size
}
