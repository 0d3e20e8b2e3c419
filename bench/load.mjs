// Drives a server with one workload, by wrk where it is installed and by autocannon where it is not.
import { execFile, execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const SCRIPT = fileURLToPath(new URL('./workloads.lua', import.meta.url))

const JSON_HEADERS = { 'Content-Type': 'application/json' }

/** In the order in which they are measured: what only reads goes first, because the others add to the table. */
export const WORKLOADS = {
  read: 'GET one',
  list: 'GET 100',
  mix: '90 % GET one, 10 % writes',
  update: 'PUT',
  create: 'POST',
}

/**
 * Its name, and `drive`, which loads `url` with a workload for some seconds and tells how many requests were answered,
 * in how many seconds, `p50Ms` and `p99Ms` of their latency, and how many failed.
 */
export function loadGenerator() {
  try {
    execFileSync('wrk', ['-v'], { stdio: 'ignore' })
  } catch (error) {
    if (error.code === 'ENOENT') return { name: 'autocannon', drive: driveByAutocannon }
    // It ends with 1 when it has told its version.
  }
  return { name: 'wrk', drive: driveByWrk }
}

async function driveByWrk({ url, workload, users, run, connections, seconds }) {
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '5s', '-s', SCRIPT]
  const { stdout } = await promisify(execFile)('wrk', [...options, url, '--', workload, users, run])
  return JSON.parse(stdout.slice(stdout.lastIndexOf('\n{') + 1))
}

async function driveByAutocannon({ url, workload, users, run, connections, seconds }) {
  const { default: autocannon } = await import('autocannon')
  const nextRequest = requests(workload, users, run)
  const setupRequest = request => ({ ...request, ...nextRequest() })
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    timeout: 5,
    requests: [{ setupRequest }],
  })
  const { '2xx': succeeded, errors, timeouts, non2xx, duration, latency } = result
  return {
    requests: succeeded + non2xx,
    seconds: duration,
    p50Ms: latency.p50,
    p99Ms: latency.p99,
    failed: errors + timeouts + non2xx,
  }
}

/** The same as workloads.lua. */
function requests(workload, users, run) {
  let serial = 0
  const pathOfOne = () => `/users/${1 + Math.floor(Math.random() * users)}`
  const withBody = (method, path, user) => ({
    method,
    path,
    headers: JSON_HEADERS,
    body: JSON.stringify({ user }),
  })
  const create = () =>
    withBody('POST', '/users', {
      name: `User ${serial}`,
      email: `${run}.${serial}@example.com`,
    })
  const rename = () => withBody('PUT', pathOfOne(), { name: `${run} ${serial}` })
  const get = path => ({ method: 'GET', path, headers: {}, body: undefined })
  return () => {
    serial++
    if (workload === 'list') return get('/users')
    if (workload === 'create' || (workload === 'mix' && serial % 20 === 0)) return create()
    if (workload === 'update' || (workload === 'mix' && serial % 20 === 10)) return rename()
    return get(pathOfOne())
  }
}
