import type { Logger } from 'pino'
import { type KeyRing, openKeyRing } from '../access/key-ring.ts'
import type { Storage } from '../storage/storage.ts'
import type { Clocks } from './clocks.ts'

export interface KeysOptions {
  readonly log: Logger
  readonly clocks: Clocks
  /** Whether no command can reach the database, because it is in the memory of the service. */
  readonly isInMemory: boolean
}

/** The API keys of a service that requires them. Rejects when they cannot be read. */
export async function openKeys(
  { apiKeys, untilReachable }: Pick<Storage, 'apiKeys' | 'untilReachable'>,
  { log, clocks, isInMemory }: KeysOptions,
): Promise<KeyRing> {
  const fail = (message: string) => (err: unknown) => log.error({ err }, message)
  const ring = await untilReachable(() =>
    openKeyRing({
      ...clocks,
      store: apiKeys,
      onReadFailure: fail('cannot refresh API keys, keeping those already loaded'),
      onRecordFailure: fail('cannot record when API keys were used'),
    }),
  )
  if (ring.isEmpty()) {
    const hint = isInMemory ? 'a database in memory can have none' : 'make one with keys create'
    log.warn(`API_KEYS is required, but there is no key: ${hint}`)
  }
  return ring
}
