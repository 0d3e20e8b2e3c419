// Scrapes a server as Prometheus does.
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

const EVERY_MS = 1000

/** As Prometheus sends it. */
const ACCEPT =
  'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'

const TIMED_SCRAPES = 20

const agent = new Agent({ keepAlive: true })

/** Scrapes the management port once a second until `stop()`; nothing without one. */
export function startScraping(managementUrl) {
  if (managementUrl === undefined) return { stop: async () => {} }
  const ended = new AbortController()
  const scraping = (async () => {
    while (!ended.signal.aborted) {
      await scrape(managementUrl)
      await sleep(EVERY_MS, undefined, { signal: ended.signal }).catch(() => {})
    }
  })()
  return {
    stop: () => {
      ended.abort()
      return scraping
    },
  }
}

/** How long a scrape takes while nothing else runs, in milliseconds: the median of several. */
export async function timeScrape(managementUrl) {
  const times = []
  for (let count = 0; count < TIMED_SCRAPES; count++) {
    const startedAt = performance.now()
    await scrape(managementUrl)
    times.push(performance.now() - startedAt)
  }
  return times.sort((a, b) => a - b)[TIMED_SCRAPES / 2]
}

/** By `node:http`, because `fetch` itself takes a millisecond longer. */
async function scrape(managementUrl) {
  const request = get(`${managementUrl}/metrics`, { agent, headers: { Accept: ACCEPT } })
  const [response] = await once(request, 'response')
  const metrics = await text(response)
  if (!metrics.endsWith('# EOF\n')) throw new Error(`no metrics: ${response.statusCode}`)
}
