import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { createApp } from './app.ts'
import { type Config, type DatabaseLocation, problemWith } from './config.ts'
import { StartError } from './errors.ts'
import { createHttpServer, type HttpServer } from './http/server.ts'
import { createStopping } from './http/stopping.ts'
import { signingKey } from './storage/signing-keys.ts'
import {
  DatabaseRefused,
  type MigrationStatus,
  migrationStatus,
  openSqlite,
} from './storage/sqlite.ts'
import { createWriteQueue } from './storage/write-queue.ts'
import { createCursors } from './users/cursor.ts'
import { createFingerprints } from './users/fingerprint.ts'
import { createPasswordHasher } from './users/passwords.ts'
import { createSqliteUserRepository } from './users/sqlite-user-repository.ts'
import { createUserRules } from './users/user.ts'
import { createUserService } from './users/user-service.ts'

export interface Service {
  readonly server: HttpServer
  /** Ends what is being written and closes the stores. */
  close(): Promise<void>
}

export interface WiringOptions {
  readonly config: Config
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  readonly newRequestId?: () => string
}

/** The service with its stores open, not yet listening. Throws `StartError` when a store cannot be opened. */
export async function openService(options: WiringOptions): Promise<Service> {
  const { config, log, now = Date.now, newRequestId = randomUUID } = options
  const database = await openDatabase(config, now)
  const writes = createWriteQueue(database)
  const repository = createSqliteUserRepository({ database, writes, now })
  const passwords = createPasswordHasher()
  const stopping = createStopping()
  const app = createApp({
    users: createUserService({
      users: repository,
      passwords,
      fingerprints: createFingerprints(passwords),
      cursors: createCursors(signingKey(database, 'cursor')),
      rules: createUserRules(config),
    }),
    ping: repository.ping,
    stopping,
    log,
    newRequestId,
    settings: config,
  })
  return {
    server: createHttpServer({ app, stopping, log, newRequestId }),
    close: async () => {
      await writes.close()
      try {
        database.pragma('wal_checkpoint(TRUNCATE)')
      } finally {
        database.close()
      }
    },
  }
}

/** Throws `StartError` when the database cannot be migrated. */
export async function migrateDatabase(config: Config): Promise<void> {
  const database = await openDatabase(config, Date.now)
  database.close()
}

/** Throws `StartError` when there is a database and it cannot be read. */
export function readMigrationStatus({ database }: Config): Promise<readonly MigrationStatus[]> {
  return namingTheSetting(database, () => migrationStatus(database.path))
}

function openDatabase({ database }: Config, now: () => number) {
  return namingTheSetting(database, () => openSqlite({ path: database.path, now }))
}

async function namingTheSetting<T>({ url }: DatabaseLocation, open: () => Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (error) {
    if (!(error instanceof DatabaseRefused)) throw error
    throw new StartError([problemWith('DATABASE_URL', url, error.message)])
  }
}
