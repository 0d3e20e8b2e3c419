// Loads servers with one workload, by wrk if it is installed and otherwise by autocannon.
import { execFile, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const SCRIPT = fileURLToPath(new URL('./workloads.lua', import.meta.url))

/** Users between the beginnings of two pages. The service remembers 50 lists, a tenth of these. */
const STEP = 20

const GET = 'GET /users/$id'
const POST = 'POST /users {"user":{"name":"User $n","email":"$run.$n@example.com"}}'
const PUT = 'PUT /users/$id {"user":{"name":"$run $n"}}'

/**
 * In the order of measurement: those that only read come first, because the others add users. The `requests` are sent in
 * turn, with $id for the id of a random user, $n for a serial number and $run for a word that no other run has.
 */
export const WORKLOADS = {
  read: { label: 'GET one', requests: [GET] },
  pages: { label: 'GET 100, a different page each time' },
  mix: {
    label: '90 % GET one, 10 % writes',
    requests: [...Array(9).fill(GET), PUT, ...Array(9).fill(GET), POST],
  },
  update: { label: 'PUT', requests: [PUT] },
  create: { label: 'POST', requests: [POST] },
}

/** The requests of a workload. Those of `pages` are made for a server with so many users. */
export async function requestsOf(workload, { url, headers, users }) {
  return WORKLOADS[workload].requests ?? (await pagesOf({ url, headers, users }))
}

/** Pages of 100 users, each behind another user. The service gives out cursors for them; the peers take ids. */
async function pagesOf({ url, headers, users }) {
  const ids = Array.from({ length: users / STEP - 100 / STEP }, (_, index) => (index + 1) * STEP)
  const requests = []
  for (let page = `/users?per_page=${STEP}`; requests.length < ids.length; ) {
    const response = await fetch(`${url}${page}`, { headers })
    await response.arrayBuffer()
    page = /<([^>]*)>; rel="next"/.exec(response.headers.get('link'))?.[1]
    if (page === undefined) return ids.map(id => `GET /users?after=${id}`)
    requests.push(`GET ${page.replace(`per_page=${STEP}`, 'per_page=100')}`)
  }
  return requests
}

/** The name of the load generator. */
export const GENERATOR = spawnSync('wrk', ['-v']).error === undefined ? 'wrk' : 'autocannon'

/**
 * Sends `requests` to the `urls` for `seconds`, each with the `headers`. Each URL gets a generator of its own and its share of the
 * `connections`. Resolves with the number of answered `requests`, the `seconds` that this took, the latency as `p50Ms` and
 * `p99Ms`, which are those of the slowest URL, and how many `failed`.
 */
export async function drive({ urls, run, connections, ...options }) {
  const share = Math.ceil(connections / urls.length)
  const load = GENERATOR === 'wrk' ? runWrk : runAutocannon
  const results = await Promise.all(
    urls.map((url, index) => load({ ...options, url, run: `${run}.${index}`, connections: share })),
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

async function runWrk({ url, headers, requests, users, run, connections, seconds }) {
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '5s', '-s', SCRIPT]
  for (const [name, value] of Object.entries(headers)) options.push('-H', `${name}: ${value}`)
  const args = [...options, url, '--', users, run, requests.join('\n')]
  const { stdout } = await promisify(execFile)('wrk', args)
  return JSON.parse(stdout.slice(stdout.lastIndexOf('\n{') + 1))
}

async function runAutocannon({ url, headers, requests, users, run, connections, seconds }) {
  const { default: autocannon } = await import('autocannon')
  let serial = 0
  const setupRequest = request => {
    serial++
    const values = { n: serial, id: 1 + Math.floor(Math.random() * users), run }
    const line = requests[serial % requests.length]
    const filled = line.replaceAll(/\$([a-z]+)/g, (_, name) => values[name])
    const [, method, path, body] = /^(\S+) (\S+) ?(.+)?$/.exec(filled)
    const type = body && { 'Content-Type': 'application/json' }
    return { ...request, method, path, body, headers: { ...headers, ...type } }
  }
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    timeout: 5,
    requests: [{ setupRequest }],
  })
  const { errors, timeouts, non2xx, duration, latency } = result
  return {
    requests: result['2xx'] + non2xx,
    seconds: duration,
    p50Ms: latency.p50,
    p99Ms: latency.p99,
    failed: errors + timeouts + non2xx,
  }
}
