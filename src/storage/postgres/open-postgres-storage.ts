import { setTimeout as sleep } from 'node:timers/promises'
import type { PostgresLocation } from '../../config/postgres-url.ts'
import type { OpenStorageOptions, SigningKeyName, Storage } from '../storage.ts'
import { UNFINISHED_COPY, UnusableDatabase } from '../unusable-database.ts'
import { createClosing } from './batches.ts'
import { readHistory } from './inspect-schema.ts'
import { openConnections } from './open-connections.ts'
import { createPostgresApiKeyStore } from './postgres-api-key-store.ts'
import { createPostgresBanStore } from './postgres-ban-store.ts'
import type { Connections } from './postgres-connections.ts'
import { isUnfinishedCopy } from './postgres-copy-mark.ts'
import { migratePostgres, postgresMigrations, requireMigrated } from './postgres-migrator.ts'
import { openSigningKeys } from './postgres-signing-keys.ts'
import { openPostgresTrialImportStore } from './postgres-trial-import-store.ts'
import { createPostgresUserChanges } from './postgres-user-changes.ts'
import { createPostgresUserImportStore } from './postgres-user-import-store.ts'
import { createPostgresUserRepository } from './postgres-user-repository.ts'
import { asUnusable, mayPass } from './unreachable-reasons.ts'
import { createWaitingWrites } from './waiting-writes.ts'
import { createWordIndexer } from './word-indexer.ts'

/** How long a start waits for a database that cannot be reached. */
const START_PATIENCE_MS = 10_000

const START_PAUSE_MS = 100

/** Opens a database that exists. Waits for a server that cannot be reached yet. */
export async function openPostgresStorage(
  location: PostgresLocation,
  options: OpenStorageOptions,
): Promise<Storage> {
  const connections = openConnections({ location, onWarning: options.onWarning })
  try {
    const keys = await untilReachable(async () => {
      await prepare(connections, options)
      return openSigningKeys(connections)
    })
    return { ...createPostgresStorage(connections, keys, options), untilReachable }
  } catch (error) {
    await connections.close()
    throw error
  }
}

async function untilReachable<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await waitFor(work)
  } catch (error) {
    throw asUnusable(error)
  }
}

/** Whether the tables of the service are there. */
export async function hasSchema(location: PostgresLocation): Promise<boolean> {
  const connections = openConnections({ location })
  try {
    return await untilReachable(async () => {
      const history = await connections.read(readHistory)
      return history.length > 0
    })
  } finally {
    await connections.close()
  }
}

/** Repeats what fails because the database cannot be reached, also if it may have been done. */
export async function waitFor<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + START_PATIENCE_MS
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!mayPass(error) || performance.now() > deadline) throw error
      await sleep(START_PAUSE_MS)
    }
  }
}

async function prepare(connections: Connections, options: OpenStorageOptions): Promise<void> {
  const migrations = postgresMigrations()
  if (options.ifMissing === 'create') {
    await migratePostgres({ connections, migrations, now: options.now })
  } else {
    await requireMigrated(connections, migrations)
  }
  if (await connections.read(isUnfinishedCopy)) throw new UnusableDatabase(UNFINISHED_COPY)
}

function createPostgresStorage(
  connections: Connections,
  keys: Awaited<ReturnType<typeof openSigningKeys>>,
  options: OpenStorageOptions,
): Omit<Storage, 'untilReachable'> {
  const { now, steadyNow, maxWaitingWrites } = options
  const closing = createClosing()
  const waiting = createWaitingWrites()
  const { onIndexing, onWarning } = options
  const indexer = createWordIndexer({ connections, onIndexing, onWarning })
  const users = createPostgresUserRepository({
    connections,
    closing,
    now,
    steadyNow,
    maxWaiting: maxWaitingWrites,
    catchUp: indexer.catchUp,
  })
  const imports = createPostgresUserImportStore({ connections, now })
  const bans = createPostgresBanStore({
    connections,
    closing,
    // A ban has ended once both clocks say so: neither a clock that jumps nor a machine that slept shortens it.
    now: () => Math.min(steadyNow(), now()),
  })
  const apiKeys = createPostgresApiKeyStore(connections)
  return {
    users: {
      ...users,
      create: waiting.counted(users.create),
      update: waiting.counted(users.update),
      replaceDigest: waiting.counted(users.replaceDigest),
      delete: waiting.counted(users.delete),
    },
    changes: createPostgresUserChanges(connections),
    imports: { ...imports, write: waiting.counted(imports.write) },
    bans: { ...bans, save: waiting.counted(bans.save), lift: waiting.counted(bans.lift) },
    apiKeys: {
      ...apiKeys,
      create: waiting.counted(apiKeys.create),
      revoke: waiting.counted(apiKeys.revoke),
      recordUses: waiting.counted(apiKeys.recordUses),
    },
    openTrialImports: () => openPostgresTrialImportStore({ connections, now }),
    signingKey: async (name: SigningKeyName) => keys.get(name) as Buffer,
    // A statement sees what was committed before it.
    readAnew: () => {},
    report: async () => ({
      engine: 'postgres',
      waitingWrites: waiting.count(),
      ...connections.report(),
    }),
    close: async () => {
      await indexer.end()
      await closing.close()
      await connections.close()
    },
  }
}
