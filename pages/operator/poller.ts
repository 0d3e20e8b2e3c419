const EVERY_MS = 2000
const FIRST_RETRY_MS = 1000
const MAX_RETRY_MS = 5000

export interface Poller {
  /** Polls at once, and then again and again. */
  start(): void
  /** Until the next start. */
  stop(): void
}

/**
 * Calls `poll` every two seconds while the page can be seen. When `poll` resolves to false or rejects, it tries again sooner at
 * first, and then every five seconds.
 */
export function createPoller(poll: () => Promise<boolean>): Poller {
  let timer = 0
  let retryMs = FIRST_RETRY_MS
  let isRunning = false
  /** Changes with each start and stop, so that at most one round goes on. */
  let round = 0

  async function run(): Promise<void> {
    const mine = round
    let isWell = false
    try {
      isWell = await poll()
    } finally {
      if (mine === round) schedule(isWell)
    }
  }

  function schedule(isWell: boolean): void {
    timer = window.setTimeout(run, isWell ? EVERY_MS : retryMs)
    retryMs = isWell ? FIRST_RETRY_MS : Math.min(retryMs * 2, MAX_RETRY_MS)
  }

  function halt(): void {
    round++
    window.clearTimeout(timer)
  }

  function resume(): void {
    halt()
    if (isRunning && !document.hidden) void run()
  }

  document.addEventListener('visibilitychange', resume)
  return {
    start: () => {
      isRunning = true
      retryMs = FIRST_RETRY_MS
      resume()
    },
    stop: () => {
      isRunning = false
      halt()
    },
  }
}
