import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { findFreePort } from '../support/free-port.ts'
import { ask, readAllUsers } from '../support/json-requests.ts'
import { listen } from '../support/listen.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canUseJq } from '../support/programs.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { until, untilPasses } from '../support/until.ts'

const PAGE = readFileSync(new URL('../../docs/changes.md', import.meta.url), 'utf8')

/** What the page leaves to its reader. Each line of the output is an entry, or `"forget"`. */
const AROUND = {
  sh: `
    apply() { cat; }
    forget_everything() { echo '"forget"'; }`,
  js: `
    import { EventSource } from '${import.meta.resolve('eventsource')}'
    const say = value => console.log(JSON.stringify(value))
    const [key, load, store] = ['', async () => undefined, () => {}]
    const put = user => say({ id: user.id, user })
    const remove = id => say({ id, user: null })
    const forgetEverything = async () => say('forget')`,
}

const PROGRAMS = {
  sh: ['sh', '-c'],
  js: [process.execPath, '--input-type=module', '-e'],
} as const

const LOOPS = [...PAGE.matchAll(/```(sh|js)\n([\s\S]*?)```/g)].map(([, language, code = '']) => {
  return { language: language as keyof typeof AROUND, code }
})

/** Runs a loop of the page, to the letter but for the address. Keeps the copy that it makes. */
function followAsShown({ language, code }: (typeof LOOPS)[number], url: string) {
  const addressed = code.replaceAll(
    /(?:http:\/\/127\.0\.0\.1:3000)?(\/users\/changes)/g,
    `${url}$1`,
  )
  const [program, ...args] = [...PROGRAMS[language], `${AROUND[language]}\n${addressed}`]
  const child = spawn(program, args, {
    cwd: temporaryFolder(),
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  // The shell has children of its own.
  onTestFinished(() => void process.kill(-Number(child.pid), 'SIGKILL'))
  const copy = new Map<number, string>()
  const follower = { copy, beginnings: 0 }
  let text = ''
  child.stdout.setEncoding('utf8').on('data', part => {
    const lines = `${text}${part}`.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) {
      const entry = JSON.parse(line)
      if (entry === 'forget') {
        copy.clear()
        follower.beginnings++
      } else if (entry.user === null) copy.delete(entry.id)
      else copy.set(entry.id, JSON.stringify(entry.user))
    }
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

test.skipIf(!canUseJq)(
  'the loops of docs/changes.md go on over a kill, a stop and an absence behind a proxy, and begin again on 410',
  async () => {
    const cwd = temporaryFolder()
    const port = await findFreePort()
    const start = () => spawnService({ cwd, env: { PORT: String(port) } })
    const proxies = await Promise.all(LOOPS.map(() => startProxy(port)))
    let service = await start()
    const followers = [service, ...proxies].flatMap(({ url }, index) =>
      // All at the service itself, and each at a proxy of its own.
      LOOPS.filter((_, at) => index === 0 || at === index - 1).map(loop =>
        followAsShown(loop, url),
      ),
    )
    expect(followers).toHaveLength(8)

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
      service = await start()
      await expectCopies()
    }
    await service.end('SIGTERM')
    const before = proxies.map(({ refused }) => refused())
    await until(() => proxies.every(({ refused }, at) => refused() >= (before[at] ?? 0) + 3))
    service = await start()
    await expectCopies()
    expect(followers.map(({ beginnings }) => beginnings)).toEqual(followers.map(() => 0))

    await service.end('SIGTERM')
    expect(await run({ cwd, args: ['migrate', '--new-feed'] })).toMatchObject({ code: 0 })
    service = await start()
    await expectCopies()
    expect(followers.map(({ beginnings }) => beginnings)).toEqual(followers.map(() => 1))
  },
)
