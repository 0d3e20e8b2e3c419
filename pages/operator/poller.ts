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
 * Calls `poll`, which never rejects, every two seconds while the page can be seen. When it resolves to false, it tries again
 * sooner at first, and then every five seconds.
 */
export function createPoller(poll: () => Promise<boolean>): Poller {
  let timer = 0
  let retryMs = FIRST_RETRY_MS
  let isRunning = false
  /** Changes with each start and stop, so that at most one round goes on. */
  let round = 0

  async function run(mine: number): Promise<void> {
    const isWell = await poll()
    if (mine !== round) return
    timer = window.setTimeout(run, isWell ? EVERY_MS : retryMs, mine)
    retryMs = isWell ? FIRST_RETRY_MS : Math.min(retryMs * 2, MAX_RETRY_MS)
  }

  function restart(): void {
    round++
    window.clearTimeout(timer)
    if (isRunning && !document.hidden) void run(round)
  }

  function set(isOn: boolean): void {
    isRunning = isOn
    retryMs = FIRST_RETRY_MS
    restart()
  }

  document.addEventListener('visibilitychange', restart)
  return { start: () => set(true), stop: () => set(false) }
}
