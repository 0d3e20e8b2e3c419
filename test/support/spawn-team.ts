import { createKeepAliveClient, type KeepAliveClient } from './keep-alive-client.ts'
import { signalAll } from './process-tree.ts'
import { type SpawnedService, type SpawnOptions, spawnService } from './spawn-service.ts'
import { until } from './until.ts'

export interface Team extends SpawnedService {
  /** The log so far, without a last line that is not complete yet. Throws for a line that is no JSON. */
  lines(): Record<string, unknown>[]
  /** Resolves to the lines with this message once there are `count`. */
  untilLogged(msg: string, count?: number): Promise<Record<string, unknown>[]>
  /** The ids of the processes that serve, in the order of their numbers, each the latest of its number. */
  workerIds(): number[]
  /** Does what opens connections while only the worker with this number runs, so that no other accepts them. */
  alone<T>(worker: number, work: () => Promise<T>): Promise<T>
  /** Connections that the worker with this number has accepted. */
  connectTo(worker: number, count: number): Promise<KeepAliveClient[]>
}

/** Starts the built service with several workers and waits until all of them serve. */
export async function spawnTeam(workers: number, options: SpawnOptions): Promise<Team> {
  const env = { WORKERS: String(workers), ...options.env }
  const service = await spawnService({ ...options, env })

  function lines(): Record<string, unknown>[] {
    const text = service.stdout()
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    return whole
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line))
  }

  function untilLogged(msg: string, count = 1): Promise<Record<string, unknown>[]> {
    return until(() => {
      const found = lines().filter(line => line.msg === msg)
      return found.length >= count ? found : undefined
    })
  }

  function workerIds(): number[] {
    const serving = lines().filter(({ msg }) => msg === 'worker serves')
    const idOf = (worker: number) => Number(serving.findLast(line => line.worker === worker)?.pid)
    return Array.from({ length: workers }, (_, index) => idOf(index + 1))
  }

  async function alone<T>(worker: number, work: () => Promise<T>): Promise<T> {
    const others = workerIds().filter((_, index) => index + 1 !== worker)
    signalAll(others, 'SIGSTOP')
    try {
      return await work()
    } finally {
      signalAll(others, 'SIGCONT')
    }
  }

  await untilLogged('worker serves', workers)
  return {
    ...service,
    lines,
    untilLogged,
    workerIds,
    alone,
    connectTo: (worker, count) =>
      alone(worker, async () => {
        const clients = Array.from({ length: count }, () => createKeepAliveClient(service.port))
        await Promise.all(clients.map(client => client.ask({ method: 'GET', path: '/livez' })))
        return clients
      }),
  }
}
