// Loads a server with one workload, by wrk if it is installed and otherwise by autocannon.
import { execFile, execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { SERVERS } from './servers.mjs'

const SCRIPT = fileURLToPath(new URL('./workloads.lua', import.meta.url))

const JSON_HEADERS = { 'Content-Type': 'application/json' }

/**
 * In the order of measurement. The workloads that only read come first, because the others add users. With a `path`, each
 * request is a GET of it. With a `status`, that is the answer. With `servers`, only those take part.
 */
export const WORKLOADS = {
  read: { label: 'GET one' },
  list: { label: 'GET 100', path: '/users' },
  pages: {
    label: 'GET 100, a different page each time',
    servers: ['service', 'fastify-bare', 'postgres', 'fastify-pg'],
  },
  missing: { label: 'GET of a user that is not there: 404', path: '/users/4000000', status: 404 },
  query: {
    label: 'GET of a list with a bad query: 400',
    path: '/users?per_page=0',
    status: 400,
    servers: ['service', 'limited'],
  },
  blocked: {
    label: 'GET that a blocklist denies: 403',
    path: '/blocked',
    status: 403,
    servers: ['limited'],
  },
  throttled: {
    label: 'GET over a throttle: 429',
    path: '/throttled',
    status: 429,
    servers: ['limited'],
  },
  mix: { label: '90 % GET one, 10 % writes' },
  update: { label: 'PUT' },
  create: { label: 'POST' },
}

/** What the groups of servers are measured with, if not with all workloads. */
const WORKLOADS_OF_GROUPS = {
  services: ['read', 'mix', 'update', 'create'],
  postgresServices: ['read', 'mix', 'update', 'create'],
  redis: ['read'],
  keys: ['read'],
  metrics: ['read'],
}

/** Whether a server takes part in a workload, and so can answer it as the workload expects. */
export function canServe(server, workload) {
  const chosen = WORKLOADS_OF_GROUPS[SERVERS[server].group]
  const { servers } = WORKLOADS[workload]
  return (servers?.includes(server) ?? true) && (chosen?.includes(workload) ?? true)
}

/**
 * The name of the load generator, and `drive`, which loads the `urls` with a workload for `seconds`, each request with the
 * `headers`. Each URL gets a generator of its own and its share of the `connections`. With `targets`, each request is a GET of one
 * of these paths. It resolves with the number of answered `requests`, the `seconds` that this took, the latency as `p50Ms` and
 * `p99Ms`, which are those of the slowest URL, and how many requests `failed`.
 */
export function loadGenerator() {
  try {
    execFileSync('wrk', ['-v'], { stdio: 'ignore' })
  } catch (error) {
    if (error.code === 'ENOENT') return { name: 'autocannon', drive: driveEach(driveByAutocannon) }
    // `wrk -v` exits with 1 after it has printed its version.
  }
  return { name: 'wrk', drive: driveEach(driveByWrk) }
}

function driveEach(drive) {
  return async ({ urls, run, connections, ...options }) => {
    const results = await Promise.all(
      urls.map((url, index) =>
        drive({
          ...options,
          url,
          run: `${run}.${index}`,
          connections: Math.ceil(connections / urls.length),
        }),
      ),
    )
    const all = key => results.map(result => result[key])
    const sum = key => all(key).reduce((total, value) => total + value, 0)
    return {
      requests: sum('requests'),
      seconds: Math.max(...all('seconds')),
      p50Ms: Math.max(...all('p50Ms')),
      p99Ms: Math.max(...all('p99Ms')),
      failed: sum('failed'),
    }
  }
}

async function driveByWrk({ url, headers, workload, targets, users, run, connections, seconds }) {
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '5s', '-s', SCRIPT]
  for (const [name, value] of Object.entries(headers)) options.push('-H', `${name}: ${value}`)
  const args = [workload, users, run, targetsOf(workload, targets).join(' ')]
  const { stdout } = await promisify(execFile)('wrk', [...options, url, '--', ...args])
  const { refused, failed, ...result } = JSON.parse(stdout.slice(stdout.lastIndexOf('\n{') + 1))
  return { ...result, failed: failed + unexpected(workload, result.requests, refused) }
}

async function driveByAutocannon({
  url,
  headers,
  workload,
  targets,
  users,
  run,
  connections,
  seconds,
}) {
  const { default: autocannon } = await import('autocannon')
  const nextRequest = requests({ workload, targets, users, run })
  const setupRequest = request => {
    const next = nextRequest()
    return { ...request, ...next, headers: { ...headers, ...next.headers } }
  }
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    timeout: 5,
    requests: [{ setupRequest }],
  })
  const { '2xx': succeeded, errors, timeouts, non2xx, duration, latency } = result
  const answered = succeeded + non2xx
  return {
    requests: answered,
    seconds: duration,
    p50Ms: latency.p50,
    p99Ms: latency.p99,
    failed: errors + timeouts + unexpected(workload, answered, non2xx),
  }
}

/** How many answers are refusals where none should be, or the other way round. */
function unexpected(workload, answered, refused) {
  return WORKLOADS[workload].status === undefined ? refused : answered - refused
}

function targetsOf(workload, targets) {
  const { path } = WORKLOADS[workload]
  return targets ?? (path === undefined ? [] : [path])
}

/** The same requests as in workloads.lua. */
function requests({ workload, targets, users, run }) {
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
  const paths = targetsOf(workload, targets)
  return () => {
    serial++
    if (paths.length > 0) return get(paths[Math.floor(Math.random() * paths.length)])
    if (workload === 'create' || (workload === 'mix' && serial % 20 === 0)) return create()
    if (workload === 'update' || (workload === 'mix' && serial % 20 === 10)) return rename()
    return get(pathOfOne())
  }
}
