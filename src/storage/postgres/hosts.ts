import type { PostgresLocation } from '../../config/postgres-url.ts'
import { NoAnswer } from '../../platform/patience.ts'
import { performance, sleep } from '../../platform/timers.ts'
import { createClientConfigs, type PostgresClientConfig } from './client-config.ts'
import { HostClient } from './host-client.ts'
import { explainRefusal, isPermanent, unavailable } from './postgres-errors.ts'

export interface HostsOptions {
  readonly location: PostgresLocation
  /** Called with what an operator should know: a fixed sentence for the log, and its cause. */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
}

const OPEN_MS = 1000

/** Between two attempts. */
const PAUSE_MS = 200

/** Without a call for so long, no host is looked for any more: a server that sleeps stays asleep. */
const WANTED_MS = 5000

/**
 * The host that takes writes, and whether there is one. Without one, one is looked for in the background, by one attempt at a
 * time: a server that is away costs its callers nothing, and is soon found again.
 * `onLost` is called when the open connections are of no use, because another host takes over, or because none answers.
 * Throws `UnusableDatabase` if a file of the location cannot be used.
 */
export function createHosts(
  { location, onWarning = () => {} }: HostsOptions,
  onLost: (reason: Error, isAway: boolean) => void,
) {
  const openMs = Math.min(location.connectTimeoutMs ?? OPEN_MS, OPEN_MS)
  const configs = createClientConfigs(location)
  let [current] = configs as readonly [PostgresClientConfig]
  let isReadOnly = false
  /** Why no host could be reached, while none is. */
  let failure: unknown
  let answeredAt = 0
  let wantedAt = 0
  let isSeeking = false
  let isClosed = false

  function note(client: HostClient): void {
    if (failure !== undefined) onWarning('database can be reached again')
    failure = undefined
    const isOther = client.config !== current || client.isReadOnly !== isReadOnly
    if (client.isReadOnly && !isReadOnly) onWarning('database takes no writes')
    current = client.config
    isReadOnly = client.isReadOnly
    if (isOther) onLost(unavailable(new Error('another server took over')), false)
    if (isReadOnly) seek()
  }

  function noteFailure(error: unknown): void {
    if (failure === undefined) onWarning('database cannot be reached', error)
    failure = error
    onLost(unavailable(error), true)
    seek()
  }

  /** Looks for a host once, and again until one takes writes, as long as there are calls. */
  async function seek(): Promise<void> {
    if (isSeeking || isClosed) return
    isSeeking = true
    do {
      await look()
      if (failure === undefined && !isReadOnly) break
      await sleep(PAUSE_MS, undefined, { ref: false })
    } while (!isClosed && performance.now() - wantedAt < WANTED_MS)
    isSeeking = false
  }

  /** That a connection cannot be opened means nothing while others answer. */
  async function look(): Promise<void> {
    const startedAt = performance.now()
    try {
      const others = configs.filter(config => config !== current)
      const client = await openAnyClient([current, ...others], openMs)
      client.end()
      note(client)
    } catch (error) {
      if (answeredAt <= startedAt) noteFailure(error)
    }
  }

  return {
    openMs,
    current: () => current,
    /** For each call. Throws `storage_unavailable` at once while the last attempt failed and a host is looked for. */
    requireReachable: () => {
      wantedAt = performance.now()
      if (failure !== undefined && isSeeking) throw unavailable(failure)
      if (isReadOnly) seek()
    },
    /** A client of `current` was opened. */
    note,
    /** No client of `current` can be opened, and none is open. */
    noteFailure,
    /** Work that had a connection since then has ended. If that gave no answer, the others may be no better. */
    noteUse: ({ broken }: HostClient, sinceMs: number) => {
      if (broken === undefined) answeredAt = performance.now()
      else if (broken instanceof NoAnswer && answeredAt <= sinceMs) seek()
    },
    /** The server takes no writes any more. */
    seek,
    close: () => {
      isClosed = true
    },
  }
}

/**
 * Tries the hosts in turn. Returns a client of the first that takes writes, otherwise of the first that answers. If none does,
 * throws the reason that says most.
 */
async function openAnyClient(
  configs: readonly PostgresClientConfig[],
  openMs: number,
): Promise<HostClient> {
  const errors: unknown[] = []
  let reader: HostClient | undefined
  for (const config of configs) {
    const client = new HostClient(config, openMs)
    try {
      await client.connect()
      await client.prepare()
    } catch (error) {
      client.destroy(error as Error)
      errors.push(explainRefusal(error, config))
      continue
    }
    const unused = client.isReadOnly && reader !== undefined ? client : reader
    unused?.end()
    if (!client.isReadOnly) return client
    reader ??= client
  }
  if (reader !== undefined) return reader
  throw errors.find(isPermanent) ?? errors[0]
}
