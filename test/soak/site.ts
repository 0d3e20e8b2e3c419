import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cleanUpAfter } from '../support/clean-up-after.ts'
import { findFreePort } from '../support/free-port.ts'
import { createPostgresCluster } from '../support/postgres-cluster.ts'
import { startRedis } from '../support/redis-server.ts'
import { UNHURRIED } from '../support/unhurried.ts'
import { until } from '../support/until.ts'

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** How many lists a client may get in a minute. */
export const LISTS_A_MINUTE = 40

/** Banned with the last of them. */
export const STRIKES = 3

const LIMITS = {
  throttle: [{ name: 'floods', userAgent: 'flood', limit: LISTS_A_MINUTE, period: '1 minute' }],
  bans: [
    {
      ...{ name: 'scanners', path: '/wp-*', mode: 'fail2ban' },
      ...{ maxretry: STRIKES, findtime: '1 minute', bantime: '1 minute' },
    },
  ],
}

export type Site = Awaited<ReturnType<typeof openSite>>

export type Service = Awaited<ReturnType<typeof createService>>

/** Starts two services on one Redis and one PostgreSQL, which has a synchronous standby. After an error nothing of it runs. */
export async function openSite() {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-soak-'))
  const closers: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
  /** Stops everything and deletes all files. */
  async function close(): Promise<void> {
    for (let closer = closers.pop(); closer !== undefined; closer = closers.pop()) await closer()
  }
  try {
    const primary = await createPostgresCluster()
    closers.push(primary.remove)
    const standby = await primary.createStandby()
    const hosts = [primary, standby].map(({ port }) => `127.0.0.1:${port}`)
    const databaseUrl = `postgres://postgres@${hosts}/postgres`
    const redis = await startRedis()
    closers.push(redis.remove)
    writeFileSync(join(folder, 'limits.json'), JSON.stringify(LIMITS))
    const command = (...args: string[]) => runCommand(folder, databaseUrl, args)
    await command('migrate')
    const scope = ['--name', 'soak', '--scope', 'users:read,users:write']
    const { stdout } = await command('keys', 'create', ...scope)
    const env = {
      ...{ DATABASE_URL: databaseUrl, CACHE_STORE: 'redis', REDIS_URL: redis.url },
      ...{ LIMITS_FILE: 'limits.json', API_KEYS: 'required', TRUST_PROXY: 'loopback' },
      ...UNHURRIED,
    }
    const services = [await createService('a', folder, env), await createService('b', folder, env)]
    closers.push(() => Promise.all(services.map(service => service.stop('SIGTERM'))))
    for (const service of services) await service.start()
    const headers = { Authorization: `Bearer ${stdout.trim()}` }
    return { folder, services, primary, standby, redis, headers, command, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** A service that can be started again and again, on the same port. */
async function createService(name: string, cwd: string, settings: Record<string, string>) {
  const port = await findFreePort()
  const { PATH, HOME } = process.env
  const env = { PATH, HOME, PORT: String(port), ...settings }
  let child: ChildProcess | undefined
  return {
    name,
    port,
    url: `http://127.0.0.1:${port}`,
    /** Resolves when it serves. */
    start: async (): Promise<void> => {
      const started = spawn(process.execPath, [MAIN], {
        ...{ cwd, env, stdio: 'ignore' },
        // Ctrl-C is for the soak, which then stops it.
        detached: true,
      })
      const end = cleanUpAfter('cat > /dev/null; kill -KILL "$1"', String(started.pid))
      started.once('exit', end)
      child = started
      await until(async () => {
        if (started.exitCode !== null) throw new Error(`${name} ended with ${started.exitCode}`)
        const ready = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined)
        return ready?.status === 200
      }, 50)
    },
    /** Resolves with its exit code. */
    stop: async (signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> => {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return null
      child.kill(signal)
      return (await once(child, 'exit'))[0]
    },
    /** What it uses now. */
    usage: () => {
      const pid = Number(child?.pid)
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      const residentMb = Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024)
      return { name, pid, residentMb, files: readdirSync(`/proc/${pid}/fd`).length }
    },
  }
}

/** Runs a command of the service on a database. */
function runCommand(cwd: string, url: string, args: readonly string[]) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: url }
  return new Promise<{ code: number; stdout: string; stderr: string }>(resolve => {
    execFile(process.execPath, [MAIN, ...args], { cwd, env }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr })
    })
  })
}
