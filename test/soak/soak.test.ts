import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Follower, followPages, followStream } from '../faults/followers.ts'
import { readAllUsers } from '../support/json-requests.ts'
import { queryPostgres } from '../support/postgres-databases.ts'
import { until } from '../support/until.ts'
import { openCopyingReceiver } from './receiver.ts'
import { openSite, type Service } from './site.ts'
import { startTraffic } from './traffic.ts'

const MINUTES = Number(process.env.SOAK_MINUTES || 60)

/** Requests a second. */
const RATE = Number(process.env.SOAK_RATE || 300)

test('two services lose nothing that was acknowledged, follow right and do not grow, whatever breaks', async () => {
  const site = await openSite()
  const { services, primary, standby, redis, headers } = site
  const [a, b] = services as [Service, Service]
  const traffic = startTraffic(site, RATE)
  const { note, during, flood, scan } = traffic
  const following = {
    ...{ urls: () => services.map(({ url }) => url), random: Math.random },
    ...{ headers, maxLimit: 1000 },
  }
  const receiver = await openCopyingReceiver()
  const added = await site.command(
    ...['webhooks', 'add', '--name', 'soak', '--url', receiver.url, '--from', 'start'],
  )
  receiver.expectSecret(added.stdout.trim())
  const followers = [followPages(following, 1), followStream(following), receiver]
  const usages: ReturnType<Service['usage']>[] = []
  let imported = 0

  async function sample(): Promise<string> {
    const now = services.map(service => service.usage())
    usages.push(...now)
    return now.map(each => `${each.name}: ${each.residentMb} MB, ${each.files} files`).join('; ')
  }

  /** Imports users beside the services, and continues whenever the database goes away. */
  async function importUsers(count: number): Promise<string> {
    const rows = Array.from({ length: count }, () => {
      imported++
      return `{"name": "Imported", "email": "imported${imported}@example.com"}\n`
    })
    const file = join(site.folder, `import-${imported}.ndjson`)
    writeFileSync(file, rows.join(''))
    for (let attempt = 1; ; attempt++) {
      const more = attempt === 1 ? [] : ['--resume']
      const { code, stderr } = await site.command('import', file, ...more)
      if (code === 0) return `${count} users in ${attempt} attempts`
      if (attempt === 60) throw new Error(`an import ended with ${code}: ${stderr}`)
      await sleep(1000)
    }
  }

  async function stopRedis(): Promise<string> {
    await redis.stop()
    await sleep(5000)
    await redis.start()
    return flood({ isExact: false })
  }

  async function killPostgres(): Promise<string> {
    const importing = importUsers(20_000)
    const unfinished = `
      SELECT FROM imports WHERE checkpoint::json->>'records' <> '0' AND checkpoint::json->>'isFinished' = 'false'`
    await until(async () => (await queryPostgres(primary.url(), unfinished)).length > 0)
    await primary.kill()
    await untilReady(503)
    await primary.start()
    await untilReady(200)
    return importing
  }

  async function failOver(): Promise<string> {
    await primary.kill()
    await untilReady(503)
    await standby.promote()
    await untilReady(200)
    return 'the standby serves'
  }

  const untilReady = (status: number) =>
    until(async () => {
      const all = await Promise.all(services.map(({ url }) => fetch(`${url}/readyz`)))
      return all.every(answer => answer.status === status)
    }, 50)

  const restart = (service: Service, signal: 'SIGTERM' | 'SIGKILL') => () =>
    during(service.name, async () => {
      const code = await service.stop(signal)
      if (code !== (signal === 'SIGTERM' ? 0 : null)) note(`${service.name} ended with ${code}`)
      await service.start()
      return `${service.name} is back`
    })

  const steps: readonly (readonly [at: number, step: string, run: () => Promise<string>])[] = [
    [0.05, 'import', () => importUsers(2000)],
    [0.1, 'usage', sample],
    [0.12, 'flood', () => flood({ isExact: true })],
    [0.15, 'scan', scan],
    [0.2, 'Redis stopped', stopRedis],
    [0.35, 'PostgreSQL killed', () => during('database', killPostgres)],
    [0.45, 'usage', sample],
    [0.5, 'failover', () => during('database', failOver)],
    [0.55, 'restart', restart(a, 'SIGTERM')],
    [0.65, 'kill -9', restart(b, 'SIGKILL')],
    [0.75, 'usage', sample],
    [0.8, 'import', () => importUsers(2000)],
    [0.85, 'flood', () => flood({ isExact: false })],
    [0.9, 'scan', scan],
    [1, 'usage', sample],
  ]
  const startedAt = Date.now()
  for (const [at, step, run] of steps) {
    await sleep(Math.max(0, startedAt + at * MINUTES * 60_000 - Date.now()))
    const result = await run().catch(error => note(`${step}: ${error?.stack ?? error}`))
    console.log(`${Math.round((Date.now() - startedAt) / 1000)} s, ${step}: ${result}`)
  }
  const acknowledged = await traffic.stop()
  const inserted = await queryPostgres(
    standby.url(),
    `SELECT FROM users WHERE email LIKE 'imported%' AND name = 'Imported'`,
  )
  expect.soft(inserted).toHaveLength(imported)
  await expectRightCopies(followers, await readAllUsers(a.url, headers))
  expect.soft(receiver.mistakes).toEqual([])
  expect.soft(await site.command('check')).toMatchObject({ code: 0 })
  expect.soft(grownIn(usages)).toEqual([])
  expect.soft(traffic.problems.slice(0, 50)).toEqual([])
  console.log(`${acknowledged} acknowledged writes and ${imported} imported users compared`)
})

/** Each copy must become exactly these users. A follower that is behind gets a minute. */
async function expectRightCopies(
  followers: readonly Pick<Follower, 'copy' | 'restarts' | 'stop'>[],
  users: ReadonlyMap<number, string>,
) {
  const giveUpAt = Date.now() + 60_000
  for (const [index, { copy, restarts, stop }] of followers.entries()) {
    const differing = () => {
      const ids = new Set([...users.keys(), ...copy.keys()])
      return [...ids].filter(id => JSON.stringify(copy.get(id)) !== users.get(id))
    }
    while (differing().length > 0 && Date.now() < giveUpAt) await sleep(500)
    await stop()
    expect.soft(differing(), `users of the follower ${index}`).toEqual([])
    console.log(`follower ${index} has ${copy.size} users, and began again ${restarts()} times`)
  }
}

/** Processes that need more and more, each from its first to its last sample. */
function grownIn(usages: readonly ReturnType<Service['usage']>[]): string[] {
  return [...new Set(usages.map(({ pid }) => pid))].flatMap(pid => {
    const ofOne = usages.filter(usage => usage.pid === pid)
    const [first, last] = [ofOne[0], ofOne.at(-1)]
    if (first === undefined || last === undefined) return []
    const isSmall =
      last.residentMb <= first.residentMb * 1.5 + 100 && last.files <= first.files + 100
    return isSmall ? [] : `${JSON.stringify(first)}, then ${JSON.stringify(last)}`
  })
}
