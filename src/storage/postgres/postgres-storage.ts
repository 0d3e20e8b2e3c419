import type { PostgresLocation } from '../../config/postgres-url.ts'
import type { StorageEngine } from '../storage.ts'

/** A database of PostgreSQL. It must exist; its tables need not. */
export function createPostgresEngine(location: PostgresLocation): StorageEngine {
  return {
    isInMemory: false,
    exists: async () => {
      const { hasSchema } = await import('./open-postgres-storage.ts')
      return hasSchema(location)
    },
    open: async options => {
      // Only when it is used: loading the driver takes tens of milliseconds of each start.
      const { openPostgresStorage } = await import('./open-postgres-storage.ts')
      return openPostgresStorage(location, options)
    },
    file: undefined,
    ownsFile: () => false,
    keepTemporaryFiles: () => {},
  }
}
