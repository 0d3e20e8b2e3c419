import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findFreePort } from './free-port.ts'
import { untilPasses } from './until.ts'

export interface RedisServerOptions {
  /** More arguments of redis-server. */
  readonly args?: readonly string[]
  /** The password of its default user. */
  readonly password?: string
  /** Arguments of redis-cli for a connection with TLS; the server then has no other port. */
  readonly tls?: readonly string[]
}

/** A Redis server of the tests' own, on 127.0.0.1. Each method returns when its effect is there. */
export interface RedisServer {
  readonly port: number
  readonly folder: string
  /** Without credentials. */
  readonly url: string
  /** Runs a command with redis-cli, and returns what it prints. */
  command(...args: readonly string[]): Promise<string>
  start(): Promise<void>
  /** Kills it, and with it all that it keeps. */
  stop(): Promise<void>
  /** It then accepts connections and never answers. */
  freeze(): void
  thaw(): void
  /** Kills it and deletes its files. */
  remove(): Promise<void>
}

/** Ends the server when its own input ends, which is when the process of the tests ends. */
const RUN = `
  redis-server "$@" > /dev/null 2>&1 &
  id=$!
  echo $id
  cat > /dev/null
  kill -KILL $id 2> /dev/null
  wait $id`

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const { args = [], password, tls } = options
  const port = await findFreePort()
  const folder = mkdtempSync(join(tmpdir(), 'user-records-redis-'))
  const ports = tls === undefined ? ['--port', `${port}`] : ['--port', '0', '--tls-port', `${port}`]
  const settings = ['--bind', '127.0.0.1', '--dir', folder, '--save', '', ...ports]
  const secret = password === undefined ? [] : ['--requirepass', password]
  let running: { readonly shell: ChildProcess; readonly id: number } | undefined

  async function command(...words: readonly string[]): Promise<string> {
    const env = { ...process.env, ...(password !== undefined && { REDISCLI_AUTH: password }) }
    const place = ['-h', '127.0.0.1', '-p', `${port}`, ...(tls ?? [])]
    const { stdout } = await promisify(execFile)('redis-cli', [...place, ...words], { env })
    return stdout.trim()
  }

  async function start(): Promise<void> {
    const shell = spawn('sh', ['-c', RUN, 'sh', ...settings, ...secret, ...args], {
      stdio: ['pipe', 'pipe', 'ignore'],
      // Ctrl-C is for the tests, which then stop the server.
      detached: true,
    })
    const [id] = await once(shell.stdout, 'data')
    running = { shell, id: Number(id) }
    await untilPasses(async () => {
      if ((await command('PING')) !== 'PONG') throw new Error('Redis is not ready')
    })
  }

  async function stop(): Promise<void> {
    if (running === undefined) return
    const { shell } = running
    running = undefined
    shell.stdin?.end()
    await once(shell, 'exit')
  }

  function signal(name: NodeJS.Signals): void {
    if (running !== undefined) process.kill(running.id, name)
  }

  await start()
  return {
    port,
    folder,
    url: `${tls === undefined ? 'redis' : 'rediss'}://127.0.0.1:${port}`,
    command,
    start,
    stop,
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    remove: async () => {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
