import { setTimeout as sleep } from 'node:timers/promises'
import { createFloods } from './floods.ts'
import { createTraffic, type TrafficParts } from './traffic.ts'

/** Beyond this, an action is left out, so that a service that hangs does not fill the memory. */
const MAX_RUNNING = 2000

const TICK_MS = 10

const FLOOD_EVERY_MS = 10_000

const SCAN_EVERY_MS = 5000

/** Requests that an action sends on average. */
const REQUESTS_AN_ACTION = 1.1

/** Begins actions at a fixed rate, however long the answers take. */
export function startLoad(parts: TrafficParts, requestsASecond: number) {
  const traffic = createTraffic(parts)
  const floods = createFloods(parts)
  const total = traffic.reduce((sum, [weight]) => sum + weight, 0)
  const running = new Set<Promise<void>>()
  const started = performance.now()
  let begun = 0
  let leftOut = 0
  let isStopping = false

  function run(action: () => Promise<void>): void {
    const ending: Promise<void> = action()
      .catch(error => parts.problems.note('the soak itself', String(error?.stack ?? error)))
      .finally(() => running.delete(ending))
    running.add(ending)
  }

  function choose(): () => Promise<void> {
    let left = Math.random() * total
    for (const [weight, action] of traffic) {
      left -= weight
      if (left < 0) return action
    }
    throw new Error('no action')
  }

  async function pace(): Promise<void> {
    while (!isStopping) {
      const due = ((performance.now() - started) / 1000) * (requestsASecond / REQUESTS_AN_ACTION)
      for (; begun < due; begun++) {
        if (running.size < MAX_RUNNING) run(choose())
        else leftOut++
      }
      await sleep(TICK_MS)
    }
  }

  const pacing = pace()
  const timers = [
    setInterval(() => run(floods.flood), FLOOD_EVERY_MS),
    setInterval(() => run(floods.scan), SCAN_EVERY_MS),
  ]
  return {
    leftOut: () => leftOut,
    /** Begins no more, and resolves when all have ended. */
    stop: async () => {
      isStopping = true
      for (const timer of timers) clearInterval(timer)
      await pacing
      while (running.size > 0) await Promise.all(running)
    },
  }
}
