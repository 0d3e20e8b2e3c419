import { spawn } from 'node:child_process'
import { createServer, request } from 'node:http'
import { expect, onTestFinished } from 'vitest'
import { newUserBody } from './builders.ts'
import { findFreePort } from './free-port.ts'
import { ask, readAllUsers } from './json-requests.ts'
import { listen } from './listen.ts'
import { temporaryFolder } from './open-test-app.ts'
import { readProject } from './project.ts'
import { run, spawnService } from './spawn-service.ts'
import { until, untilPasses } from './until.ts'

export interface Loop {
  readonly language: 'sh' | 'js'
  readonly code: string
}

/** The loops of docs/changes.md. */
export const LOOPS = [...readProject('docs/changes.md').matchAll(/```(sh|js)\n([\s\S]*?)```/g)].map(
  ([, language, code = '']) => ({ language, code }) as Loop,
)

/** What the page leaves to its reader. Each line of the output is an entry, or `"forget"`. */
const AROUND = {
  sh: `
    apply() { cat; }
    forget_everything() { echo '"forget"'; }
  `,
  js: `
    const [key, load, store] = ['', async () => undefined, () => {}]
    // Like a database, which a loop must wait for.
    const put = async user => {
      await new Promise(resolve => setTimeout(resolve, 20))
      say({ id: user.id, user })
    }
    const remove = id => say({ id, user: null })
    const forgetEverything = async () => say('forget')
  `,
} as const

/** A loop to the letter, but for the address. That of `js` needs a function `say`. */
export function programOf({ language, code }: Loop, url: string): string {
  const address = /(?:http:\/\/127\.0\.0\.1:3000)?(\/users\/changes)/g
  return AROUND[language] + code.replaceAll(address, `${url}$1`)
}

/** The copy that a follower makes, by what it says. */
export function startCopy() {
  const copy = new Map<number, string>()
  let beginnings = 0
  return {
    copy,
    beginnings: () => beginnings,
    take: (line: string) => {
      const entry = JSON.parse(line)
      if (entry === 'forget') {
        copy.clear()
        beginnings++
      } else if (entry.user === null) copy.delete(entry.id)
      else copy.set(entry.id, JSON.stringify(entry.user))
    },
  }
}

export type Follower = Omit<ReturnType<typeof startCopy>, 'take'>

/** Runs a loop as a process. `eventSource` is the address of the module that it has its `EventSource` from. */
export function runLoop(loop: Loop, url: string, eventSource: string): Follower {
  const program = programOf(loop, url)
  const module = `
    import * as found from '${eventSource}'
    const EventSource = found.EventSource ?? found.default
    const say = value => console.log(JSON.stringify(value))
    ${program}`
  const [command, args] =
    loop.language === 'sh'
      ? ['sh', ['-c', program]]
      : [process.execPath, ['--input-type=module', '-e', module]]
  const child = spawn(command, args, {
    cwd: temporaryFolder(),
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  // The shell has children of its own.
  onTestFinished(() => {
    if (child.exitCode === null) process.kill(-Number(child.pid), 'SIGKILL')
  })
  const follower = startCopy()
  let text = ''
  child.stdout.setEncoding('utf8').on('data', part => {
    const lines = `${text}${part}`.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) follower.take(line)
  })
  return follower
}

/** A proxy that answers 503 while the service is away, as HAProxy does, and breaks off what the service breaks off. */
async function startProxy(port: number) {
  let refused = 0
  const server = createServer((incoming, outgoing) => {
    const { method, url = '', headers } = incoming
    const passed = request({ port, method, path: url, headers, agent: false }, answer => {
      outgoing.writeHead(answer.statusCode ?? 0, answer.headers).flushHeaders()
      answer.pipe(outgoing)
      answer.on('error', () => outgoing.destroy())
    })
    passed.on('error', () => {
      refused++
      if (!outgoing.headersSent) outgoing.writeHead(503).end()
    })
    outgoing.on('close', () => passed.destroy())
    passed.end()
  })
  const proxyPort = await listen(server)
  onTestFinished(() => server.closeAllConnections())
  return { url: `http://127.0.0.1:${proxyPort}`, refused: () => refused }
}

/**
 * Expects that followers go on over a kill, a stop and an absence, and begin again once their cursor has expired: each of them at
 * the service itself, and behind a proxy of its own.
 */
export async function expectToGoOn(
  start: readonly ((url: string) => Follower | Promise<Follower>)[],
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const cwd = temporaryFolder()
  const port = await findFreePort()
  const startService = () => spawnService({ cwd, env: { PORT: String(port), ...env } })
  const proxies = await Promise.all(start.map(() => startProxy(port)))
  let service = await startService()
  const followers = await Promise.all(
    start.flatMap((follow, at) => [service.url, String(proxies[at]?.url)].map(follow)),
  )

  const ids: number[] = []
  const expectCopies = async () => {
    const created = await ask(service, 'POST /users', newUserBody())
    ids.push(created.body.id)
    if (ids.length > 2) await ask(service, `DELETE /users/${ids.shift()}`)
    const users = await readAllUsers(service.url)
    await untilPasses(() => {
      for (const { copy } of followers) expect(copy).toEqual(users)
    })
  }

  await expectCopies()
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    expect(await service.end(signal)).toMatchObject({ code: signal === 'SIGTERM' ? 0 : null })
    service = await startService()
    await expectCopies()
  }
  await service.end('SIGTERM')
  const before = proxies.map(({ refused }) => refused())
  await until(() => proxies.every(({ refused }, at) => refused() >= (before[at] ?? 0) + 3))
  service = await startService()
  await expectCopies()
  expect(followers.map(({ beginnings }) => beginnings())).toEqual(followers.map(() => 0))

  await service.end('SIGTERM')
  expect(await run({ cwd, args: ['migrate', '--new-feed'] })).toMatchObject({ code: 0 })
  service = await startService()
  await expectCopies()
  expect(followers.map(({ beginnings }) => beginnings())).toEqual(followers.map(() => 1))
}
