import { onTestFinished } from 'vitest'
import { createSqliteEngine } from '../../src/storage/sqlite/sqlite-storage.ts'
import type { OpenStorageOptions, Storage, StorageEngine } from '../../src/storage/storage.ts'

/** Opens a database as a process of its own does. `now` replaces all clocks. It is closed after the test. */
export async function openStored(
  engine: StorageEngine,
  { now = Date.now, ...options }: Partial<OpenStorageOptions> = {},
): Promise<Storage> {
  const usual = {
    now,
    steadyNow: now,
    uptimeNow: now,
    serverNow: now,
    maxWaitingWrites: 10_000,
    ifMissing: 'create',
  } as const
  const storage = await engine.open({ ...usual, ...options })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= storage.close()
    return closed
  }
  onTestFinished(close)
  return { ...storage, close }
}

/** The same of a path. */
export function openSqliteStored(path: string, options?: Partial<OpenStorageOptions>) {
  return openStored(createSqliteEngine(path), options)
}
