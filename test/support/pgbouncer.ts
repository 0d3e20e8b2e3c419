import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { findFreePort } from './free-port.ts'
import { temporaryFolder } from './open-test-app.ts'
import { connectToPostgres } from './postgres-client.ts'
import { owner } from './unprivileged-user.ts'
import { untilPasses } from './until.ts'

/** Why tests through PgBouncer cannot run, if so. */
export function whyNoPgBouncer(): string | undefined {
  try {
    execFileSync('pgbouncer', ['--version'], { stdio: 'ignore' })
    return undefined
  } catch {
    return 'PgBouncer is not installed'
  }
}

/** Starts PgBouncer, with transaction pooling and few connections, in front of a database. Returns the URL through it. */
export async function startPgBouncer(databaseUrl: string): Promise<string> {
  const { hostname, port, pathname, username } = new URL(databaseUrl)
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
  const listenPort = await findFreePort()
  const users = join(folder, 'users.txt')
  writeFileSync(users, `"${username}" ""\n`)
  const configuration = join(folder, 'pgbouncer.ini')
  writeFileSync(
    configuration,
    `[databases]
* = host=${hostname} port=${port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listenPort}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
admin_users = ${username}
pool_mode = transaction
default_pool_size = 3
`,
  )
  const child = spawn('pgbouncer', [configuration], { stdio: 'ignore', ...owner })
  onTestFinished(() => endOf(child))
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${listenPort}`
  url.pathname = pathname
  const client = await untilPasses(() => connectToPostgres(url.href))
  await client.end()
  return url.href
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const ended = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}
