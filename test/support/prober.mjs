// Requests one path again and again, and answers a message with the response times. A separate process, so that other
// work of the test does not affect them.
import http from 'node:http'

const [url, pauseMs, keepAlive] = process.argv.slice(2)
const agent = new http.Agent({ keepAlive: keepAlive === 'true' })
const statuses = {}
const latencies = []
let isStopped = false

process.once('message', () => {
  isStopped = true
})

function ask() {
  const startedAt = performance.now()
  return new Promise(resolve => {
    const ended = status => {
      statuses[status] = (statuses[status] ?? 0) + 1
      latencies.push(performance.now() - startedAt)
      resolve()
    }
    http
      .get(url, { agent }, response => {
        response.resume().once('end', () => ended(response.statusCode))
      })
      .once('error', error => ended(error.code))
  })
}

await ask()
process.send('started')
while (!isStopped) {
  await ask()
  await new Promise(resolve => setTimeout(resolve, Number(pauseMs)))
}
latencies.sort((a, b) => a - b)
const quantile = share => Math.round(latencies[Math.floor(latencies.length * share)] * 100) / 100
process.send({
  statuses,
  count: latencies.length,
  p50Ms: quantile(0.5),
  p99Ms: quantile(0.99),
  maxMs: Math.round(latencies.at(-1) * 100) / 100,
})
process.disconnect()
