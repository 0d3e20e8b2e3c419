// The Redis server of a benchmark, which it starts for itself.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.mjs'

const START_PATIENCE_MS = 20_000

/** Runs the server until the input ends, however this process ends. Then it deletes the folder. */
const RUN = `
  redis-server --bind 127.0.0.1 --port "$2" --dir "$1" --save '' --appendonly no &
  cat > /dev/null
  kill -TERM $!
  wait $!
  rm -rf "$1"`

/** Said when `openRedis` finds no server. */
export const NO_REDIS = 'skipped with Redis: there is no redis-server on the PATH'

/** The `url` of a new server, `cpuMicros()` for the CPU time that it has used so far, and `close()`. Undefined without a server. */
export async function openRedis() {
  if (!isInstalled()) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'user-records-bench-redis-'))
  const port = await freePort()
  const child = spawn('/bin/sh', ['-c', RUN, 'sh', folder, String(port)], {
    stdio: ['pipe', 'ignore', 'inherit'],
    // Ctrl-C is for this process, at whose end the server ends.
    detached: true,
  })
  await untilReady(port)
  return {
    url: `redis://127.0.0.1:${port}`,
    cpuMicros: () => readCpu(port),
    close: async () => {
      child.stdin.end()
      await once(child, 'close')
    },
  }
}

function isInstalled() {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' })
    return true
  } catch (error) {
    if (error.code === 'ENOENT') return false
    throw error
  }
}

async function untilReady(port) {
  const deadline = performance.now() + START_PATIENCE_MS
  for (;;) {
    try {
      return await readCpu(port)
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(20)
    }
  }
}

async function readCpu(port) {
  const socket = connect(port, '127.0.0.1')
  socket.end('INFO cpu\r\nQUIT\r\n')
  let text = ''
  for await (const chunk of socket) text += chunk
  const secondsOf = name => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)[1])
  return (secondsOf('used_cpu_user') + secondsOf('used_cpu_sys')) * 1e6
}
