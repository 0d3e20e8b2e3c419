import { spawn } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWithTest } from './clean-up-after.ts'
import { findFreePort } from './free-port.ts'
import { temporaryFolder } from './open-test-app.ts'
import { connectToPostgres } from './postgres-databases.ts'
import { owner } from './unprivileged-user.ts'
import { untilPasses } from './until.ts'

/** Starts PgBouncer, by default with transaction pooling and few connections, in front of a database. Returns the URL through it. */
export async function startPgBouncer(
  databaseUrl: string,
  { mode = 'transaction', size = 3 } = {},
): Promise<string> {
  const { hostname, port, username } = new URL(databaseUrl)
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
pool_mode = ${mode}
default_pool_size = ${size}
`,
  )
  const child = spawn('pgbouncer', [configuration], { stdio: 'ignore', ...owner })
  endWithTest(child)
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${listenPort}`
  const client = await untilPasses(() => connectToPostgres(url.href))
  await client.end()
  return url.href
}
