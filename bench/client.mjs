// A client of the service, and how long its requests take. By `node:http`, because `fetch` itself takes a millisecond.
import { Agent, request } from 'node:http'
import { median } from './summary.mjs'

/** `ask(target, { method, user })` resolves with status, headers and text of the answer. `close()` ends the connections. */
export function createClient(url, maxSockets = 1) {
  const agent = new Agent({ keepAlive: true, maxSockets })
  const ask = (target, { method = 'GET', user } = {}) =>
    new Promise((resolve, reject) => {
      const text = user === undefined ? '' : JSON.stringify({ user })
      const headers = { 'Content-Length': Buffer.byteLength(text) }
      if (user !== undefined) headers['Content-Type'] = 'application/json'
      const sent = request(new URL(target, url), { method, agent, headers }, response => {
        let body = ''
        response.setEncoding('utf8').on('data', chunk => {
          body += chunk
        })
        response.on('end', () =>
          resolve({ status: response.statusCode, headers: response.headers, body }),
        )
      })
      sent.on('error', reject).end(text)
    })
  return { ask, close: () => agent.destroy() }
}

/** The same answer, if it is a success. */
export async function succeeded(asking) {
  const answer = await asking
  if (answer.status < 300) return answer
  throw new Error(`${answer.status} ${answer.body}`)
}

/** The median and the 99th percentile of the times of some calls, one after another, in milliseconds. */
export async function timesOf(count, call) {
  const times = []
  for (let index = 0; index < count; index++) {
    const startedAt = performance.now()
    await call(index)
    times.push(performance.now() - startedAt)
  }
  return medianAndP99(times)
}

export function medianAndP99(times) {
  const sorted = times.toSorted((a, b) => a - b)
  return [median(sorted), sorted[Math.floor(sorted.length * 0.99)]]
}
