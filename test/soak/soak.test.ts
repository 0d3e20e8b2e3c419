import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Follower, followPages, followStream } from '../faults/followers.ts'
import { readAllUsers } from '../support/json-requests.ts'
import { queryPostgres } from '../support/postgres-databases.ts'
import { until } from '../support/until.ts'
import { startBatches } from './batches.ts'
import { openReceiver } from './receiver.ts'
import { openSite, type Service, type Site } from './site.ts'
import { startTraffic } from './traffic.ts'

const USAGE = 'npm run soak -- [--minutes 60] [--rate 300]'

/** Runs the soak and says what it finds. Returns the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args)
  if (options === undefined) {
    console.error(USAGE)
    return 2
  }
  const interrupted = new Promise<number>(resolve => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => resolve(130))
  })
  const site = await openSite()
  try {
    return await Promise.race([soak(site, options), interrupted])
  } finally {
    await site.close()
  }
}

async function soak(site: Site, { minutes, rate }: { minutes: number; rate: number }) {
  const { services, primary, standby, redis, headers } = site
  const [a, b] = services as [Service, Service]
  const traffic = startTraffic(site, rate)
  const { note, during, flood, scan } = traffic
  const following = {
    ...{ urls: () => services.map(({ url }) => url), random: Math.random },
    ...{ headers, maxLimit: 1000 },
  }
  const receiver = await openReceiver()
  const added = await site.command(
    ...['webhooks', 'add', '--name', 'soak', '--url', receiver.url, '--from', 'start'],
  )
  receiver.expectSecret(added.stdout.trim())
  const followers = [followPages(following, 1), followStream(following), receiver]
  const batches = startBatches(site)
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
    await sleep(Math.max(0, startedAt + at * minutes * 60_000 - Date.now()))
    const result = await run().catch(error => note(`${step}: ${error?.stack ?? error}`))
    console.log(`${Math.round((Date.now() - startedAt) / 1000)} s, ${step}: ${result}`)
  }
  const acknowledged = await traffic.stop()
  const many = await batches.stop()
  many.problems.forEach(note)
  await compareImported(standby.url(), imported).catch(error => note(String(error)))
  await compareFollowers(followers, await readAllUsers(a.url, headers)).catch(error =>
    note(String(error)),
  )
  receiver.mistakes.forEach(note)
  const { code, stdout, stderr } = await site.command('check')
  if (code !== 0) note(`check: ${stdout}${stderr}`)
  for (const grown of grownIn(usages)) note(`grown: ${grown}`)
  for (const problem of traffic.problems.slice(0, 50)) console.log(problem)
  const found = traffic.problems.length
  console.log(
    `${acknowledged} acknowledged writes, ${many.acknowledged} of many users and ${imported} imported users compared`,
  )
  console.log(found === 0 ? 'passed' : `failed: ${found} problems`)
  return found === 0 ? 0 : 1
}

async function compareImported(url: string, imported: number): Promise<void> {
  const [row] = await queryPostgres(
    url,
    `SELECT count(*) AS count FROM users WHERE email LIKE 'imported%' AND name = 'Imported'`,
  )
  if (row?.count !== imported) throw new Error(`${row?.count} of ${imported} imported users`)
}

/** Each copy must become exactly these users. A follower that is behind gets a minute. */
async function compareFollowers(
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
    const wrong = differing()
    if (wrong.length > 0) throw new Error(`follower ${index} is wrong about the users ${wrong}`)
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

function readOptions(args: readonly string[]) {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        minutes: { type: 'string', default: '60' },
        rate: { type: 'string', default: '300' },
      },
    })
    const minutes = Number(values.minutes)
    const rate = Number(values.rate)
    const isRight = minutes >= 1 && minutes <= 24 * 60 && rate > 0 && rate <= 5000
    return isRight ? { minutes, rate } : undefined
  } catch {
    return undefined
  }
}
