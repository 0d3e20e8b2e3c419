// The Redis server of a benchmark, which it starts for itself.
import { spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, startProgram, whenReady } from './programs.mjs'

const RUN = `redis-server --bind 127.0.0.1 --port "$2" --dir "$1" --save '' --appendonly no`

/**
 * The `url` of a new server, `cpuMicros()` for the CPU time used so far, and `close()`. Says so and returns undefined if
 * no server is installed.
 */
export async function openRedis() {
  if (spawnSync('redis-server', ['--version']).error !== undefined) {
    console.error('skipped with Redis: there is no redis-server on the PATH')
    return undefined
  }
  const folder = mkdtempSync(join(tmpdir(), 'user-records-bench-redis-'))
  const port = await freePort()
  const close = startProgram(RUN, { folder, args: [String(port)], signal: 'TERM' })
  await whenReady(() => readCpu(port))
  return { url: `redis://127.0.0.1:${port}`, cpuMicros: () => readCpu(port), close }
}

async function readCpu(port) {
  const socket = connect(port, '127.0.0.1')
  socket.end('INFO cpu\r\nQUIT\r\n')
  let text = ''
  for await (const chunk of socket) text += chunk
  const secondsOf = name => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)[1])
  return (secondsOf('used_cpu_user') + secondsOf('used_cpu_sys')) * 1e6
}
