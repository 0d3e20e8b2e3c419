import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { endWithTests } from './clean-up-after.ts'
import { findFreePort } from './free-port.ts'
import { until } from './until.ts'

export interface RedisServerOptions {
  /** More arguments of redis-server. */
  readonly args?: readonly string[]
  /** The password of its default user. */
  readonly password?: string
  /** Arguments of redis-cli for a connection with TLS; the server then has no other port. */
  readonly tls?: readonly string[]
}

export type RedisServer = Awaited<ReturnType<typeof startRedis>>

/** A node of a Cluster also listens on this port more than its own. */
const CLUSTER_PORT_OFFSET = 10_000

/** Ports from here on may belong to connections. */
const FIRST_PORT_OF_CONNECTIONS = 32_768

/** A Redis server of the tests' own, on 127.0.0.1. Each method returns when its effect is there. */
export async function startRedis(options: RedisServerOptions = {}) {
  const { args = [], password, tls } = options
  const folder = mkdtempSync(join(tmpdir(), 'user-records-redis-'))
  const secret = password === undefined ? [] : ['--requirepass', password]
  let port = 0
  let running: ChildProcess | undefined

  /** Runs a command with redis-cli, and returns what it prints. */
  async function command(...words: readonly string[]): Promise<string> {
    const env = { ...process.env, ...(password !== undefined && { REDISCLI_AUTH: password }) }
    const place = ['-h', '127.0.0.1', '-p', `${port}`, ...(tls ?? [])]
    const { stdout } = await promisify(execFile)('redis-cli', [...place, ...words], { env })
    return stdout.trim()
  }

  /** Whether it runs. It does not if somebody else took its port. */
  async function tryToStart(): Promise<boolean> {
    const ports =
      tls === undefined ? ['--port', `${port}`] : ['--port', '0', '--tls-port', `${port}`]
    const settings = ['--bind', '127.0.0.1', '--dir', folder, '--save', '', ...ports]
    const server = spawn('redis-server', [...settings, ...secret, ...args], {
      stdio: 'ignore',
      // Ctrl-C is for the tests, which then stop the server.
      detached: true,
    })
    endWithTests(server)
    running = server
    return until(async () => {
      if (server.exitCode !== null) return 'ended'
      // It may be another server that has the port.
      const answer = await command('INFO', 'server').catch(() => '')
      return answer.includes(`process_id:${server.pid}\r`) && 'runs'
    }).then(state => state === 'runs')
  }

  async function startAnywhere(): Promise<void> {
    do {
      port = await findFreePort()
    } while (port + CLUSTER_PORT_OFFSET >= FIRST_PORT_OF_CONNECTIONS || !(await tryToStart()))
  }

  async function start(): Promise<void> {
    if (!(await tryToStart())) throw new Error('the port of the server is in use')
  }

  /** Kills it, and with it all that it keeps. */
  async function stop(): Promise<void> {
    const server = running
    running = undefined
    if (server === undefined || !server.kill('SIGKILL')) return
    await once(server, 'exit')
  }

  await startAnywhere()
  return {
    port,
    /** Without credentials. */
    url: `${tls === undefined ? 'redis' : 'rediss'}://127.0.0.1:${port}`,
    command,
    start,
    stop,
    /** It then accepts connections and never answers. */
    freeze: () => running?.kill('SIGSTOP'),
    thaw: () => running?.kill('SIGCONT'),
    /** Kills it and deletes its files. */
    remove: async (): Promise<void> => {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
