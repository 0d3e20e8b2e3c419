import { type KeyRing, openKeyRing } from '../access/key-ring.ts'
import { engineOf } from './engines.ts'
import type { Opened } from './open-storage.ts'

/** The API keys of a service that requires them. Rejects when they cannot be read. */
export async function openKeys({ config, log, clocks, storage }: Opened): Promise<KeyRing> {
  const fail = (message: string) => (err: unknown) => log.error({ err }, message)
  const ring = await storage.untilReachable(() =>
    openKeyRing({
      ...clocks,
      store: storage.apiKeys,
      onChange: (change, { name, scopes, expiresAt }) => {
        const expires = expiresAt === Infinity ? undefined : new Date(expiresAt).toISOString()
        log.info({ key: name, scopes: [...scopes], expires }, `API key ${change}`)
      },
      onReadFailure: fail('cannot refresh API keys, keeping those already loaded'),
      onRecordFailure: fail('cannot record when API keys were used'),
    }),
  )
  if (ring.isEmpty()) {
    const hint = engineOf(config.database).isInMemory
      ? 'a database in memory can have none'
      : 'make one with keys create'
    log.warn(`API_KEYS is required, but there is no key: ${hint}`)
  }
  return ring
}
