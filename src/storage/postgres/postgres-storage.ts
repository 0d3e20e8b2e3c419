import type { PostgresLocation } from '../../config/postgres-url.ts'
import type { StorageEngine } from '../storage.ts'

/** A database of PostgreSQL. It must exist; its tables need not. */
export function createPostgresEngine(location: PostgresLocation): StorageEngine {
  // Only when it is used: loading the driver takes tens of milliseconds of each start.
  const loadStorage = () => import('./open-postgres-storage.ts')
  return {
    isInMemory: false,
    exists: async () => (await loadStorage()).hasSchema(location),
    open: async options => (await loadStorage()).openPostgresStorage(location, options),
    file: undefined,
    ownsFile: () => false,
    keepTemporaryFiles: () => {},
  }
}
