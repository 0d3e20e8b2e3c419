// A probe: a separate client that asks for one user again and again while the load runs. It shows how long others wait.
import { Agent, get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const PAUSE_MS = 2

/** `stop()` ends the probe and returns the latency of each of its requests, in milliseconds. */
export function listenBeside(url, headers) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const times = []
  let isStopped = false
  const asking = (async () => {
    while (!isStopped) {
      const startedAt = performance.now()
      await ask(url, { agent, headers })
      times.push(performance.now() - startedAt)
      await sleep(PAUSE_MS)
    }
  })()
  return {
    stop: async () => {
      isStopped = true
      await asking
      agent.destroy()
      return times
    },
  }
}

function ask(url, options) {
  return new Promise((resolve, reject) => {
    get(url, options, response => {
      response.resume().once('end', resolve)
    }).once('error', reject)
  })
}
