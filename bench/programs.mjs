// Programs that a benchmark starts for itself, and its folder. Both end with this process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const START_PATIENCE_MS = 20_000

/** A new folder, which is removed when this process exits or is interrupted. */
export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'user-records-bench-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  process.once('SIGINT', () => process.exit(130))
  return folder
}

/** A port that nothing uses now. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/**
 * Runs `command`, a line of sh whose parameters are `args`, in a new folder, which is the first of them. Its program gets
 * the `signal` when `stop()` is called or this process ends in any way, and then the folder is deleted.
 */
export function startProgram(command, { folder, args, signal, options }) {
  const script = `${command} &\ncat > /dev/null\nkill -${signal} $!\nwait $!\nrm -rf "$1"`
  const child = spawn('/bin/sh', ['-c', script, 'sh', folder, ...args], {
    ...options,
    stdio: ['pipe', 'ignore', 'ignore'],
    // Ctrl-C is for this process, at whose end the program ends.
    detached: true,
  })
  return async () => {
    child.stdin.end()
    await once(child, 'close')
  }
}

/** What `connect` returns as soon as it succeeds, with a program that has just been started. */
export async function whenReady(connect) {
  const deadline = performance.now() + START_PATIENCE_MS
  for (;;) {
    try {
      return await connect()
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(50)
    }
  }
}
