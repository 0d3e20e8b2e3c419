import type { PostgresLocation } from '../../config/postgres-url.ts'
import { performance, sleep } from '../../platform/timers.ts'
import type { UserRepository } from '../../users/user-repository.ts'
import { createCallGate, through } from '../call-gate.ts'
import { createApiKeyStore } from '../create-api-key-store.ts'
import { createCopyStore } from '../create-copy-store.ts'
import { createSigningKeys } from '../create-signing-keys.ts'
import { createWebhookStore } from '../create-webhook-store.ts'
import type { MigrateOptions, MigrationStatus } from '../database-tasks.ts'
import { foldWords, foldWordsBeside } from '../fold-words.ts'
import { migrationsFor } from '../migrations.ts'
import { type OpenStorageOptions, reportingCommits, type Storage } from '../storage.ts'
import { UnusableDatabase } from '../unusable-database.ts'
import { createContendedWrites } from './contended-writes.ts'
import { createUserCreate } from './create-users.ts'
import { SHORT_STATEMENT_MS } from './host-client.ts'
import {
  isUnfinishedCopy,
  readHistory,
  readUsableHistory,
  refuseUnfinishedCopy,
  requireAllRows,
} from './inspect-schema.ts'
import { openConnections } from './open-connections.ts'
import { createPostgresBanStore } from './postgres-ban-store.ts'
import { type Connections, createPostgresSharedStatements } from './postgres-connections.ts'
import { asUnusable, mayPass } from './postgres-errors.ts'
import { migratePostgres, postgresMigrationStatus, requireMigrated } from './postgres-migrator.ts'
import { createPostgresUserChanges, EXPIRE_CURSORS } from './postgres-user-changes.ts'
import { createPostgresUserImportStore, LAST_GIVEN_ID } from './postgres-user-import-store.ts'
import { createPostgresUserLists } from './postgres-user-lists.ts'
import { createShortReads, POSTGRES_WORDS } from './user-reads.ts'
import { createUserUpdates } from './user-updates.ts'

/** How long a start waits for a database that cannot be reached. */
const START_PATIENCE_MS = 10_000

const START_PAUSE_MS = 100

/** A commit that waits for a standby gets no answer after this time. Only sessions of its own role show a role what they wait for. */
const PING = {
  name: 'ping',
  text: `
    SELECT current_setting('transaction_read_only') = 'on' OR EXISTS (
        SELECT FROM pg_stat_activity WHERE datname = current_database()
          AND wait_event = 'SyncRep' AND state_change < clock_timestamp() - interval '${SHORT_STATEMENT_MS} ms'),
      EXISTS (SELECT FROM users WHERE id = 1)`,
}

const HIDING = 'row-level security hides rows'

/** After this time without use, which is less than a minute, the server is left alone. It may then sleep. */
const IDLE_AFTER_MS = 55_000

/** Some statements of `check` read all users. */
const TASK_STATEMENT_MS = 60_000

/** Opens a database that exists. Waits for a server that cannot be reached yet. */
export async function openPostgresStorage(
  location: PostgresLocation,
  options: OpenStorageOptions,
): Promise<Storage> {
  const { onWarning } = options
  const onCommit = reportingCommits(options)
  const connections = openConnections({ location, onWarning, onCommit })
  try {
    await untilReachable(() => prepare(connections, options))
    return createPostgresStorage(connections, options)
  } catch (error) {
    await connections.close()
    throw error
  }
}

/** Repeats what fails because the database cannot be reached, also if it may have been done. */
async function untilReachable<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + START_PATIENCE_MS
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!mayPass(error) || performance.now() > deadline) throw asUnusable(error)
      await sleep(START_PAUSE_MS)
    }
  }
}

/** Whether the tables of the service are there. */
export async function hasSchema(location: PostgresLocation): Promise<boolean> {
  const history = await withConnections(location, readHistory)
  return history.length > 0
}

/** Runs a task of a command. Waits for a server that cannot be reached yet, as a start does. */
export async function withConnections<T>(
  location: PostgresLocation,
  work: (connections: Connections) => Promise<T>,
): Promise<T> {
  const connections = openConnections({ location, longStatementMs: TASK_STATEMENT_MS })
  try {
    await untilReachable(() => connections.query('SELECT 1'))
    return await work(connections)
  } catch (error) {
    throw asUnusable(error)
  } finally {
    await connections.close()
  }
}

/** Brings the schema and the words of users to this release. */
export function migrateDatabase(
  location: PostgresLocation,
  { reindex = false, newFeed, onFolding, signal }: MigrateOptions = {},
): Promise<void> {
  return withConnections(location, async connections => {
    await migratePostgres({ connections, now: Date.now })
    await refuseUnfinishedCopy(connections)
    if (newFeed) await connections.write(EXPIRE_CURSORS)
    const folding = { isForced: reindex, onStep: onFolding, signal }
    await foldWords(createPostgresSharedStatements(connections), POSTGRES_WORDS, folding)
  })
}

/** The migrations of this release in order. */
export function readMigrationStatus(
  location: PostgresLocation,
): Promise<readonly MigrationStatus[]> {
  return withConnections(location, postgresMigrationStatus)
}

async function prepare(connections: Connections, options: OpenStorageOptions): Promise<void> {
  await requireAllRows(connections)
  const { ifMissing, isCopyTarget = false, now } = options
  const mustBeCurrent = ifMissing !== 'create' || (isCopyTarget && (await isUsed(connections)))
  if (mustBeCurrent) await requireMigrated(connections)
  else await migratePostgres({ connections, now })
  if (!isCopyTarget) await refuseUnfinishedCopy(connections)
}

/** Whether a target of `copy` has a schema, and is no unfinished copy: it is refused as it is. */
async function isUsed(connections: Connections): Promise<boolean> {
  const history = await readUsableHistory(connections, migrationsFor('postgres'))
  return history.length > 0 && !(await isUnfinishedCopy(connections))
}

function createPostgresStorage(connections: Connections, options: OpenStorageOptions): Storage {
  const { now, steadyNow, maxWaitingWrites } = options
  const writes = createCallGate(maxWaitingWrites)
  let usedAt = steadyNow()
  const isIdle = () => steadyNow() - usedAt > IDLE_AFTER_MS
  const statements = createPostgresSharedStatements(connections)
  const folding = foldWordsBeside(statements, POSTGRES_WORDS, options)
  async function endInOrder(): Promise<void> {
    await folding.end()
    await writes.close()
  }

  /** The same functions, each call of which is a use of the database. Those of `writing` wait as writes, as many as they are given. */
  function used<T extends object>(calls: T, writing: readonly (keyof T)[] = []): T {
    const sizeOf = (first: unknown) => (Array.isArray(first) ? first.length : 1)
    const entries = Object.entries(calls).map(([name, call]) => {
      const run = writing.includes(name as keyof T) ? through(writes, call, sizeOf) : call
      const use = (...args: [unknown]) => {
        usedAt = steadyNow()
        return run(...args)
      }
      return [name, use]
    })
    return Object.fromEntries(entries)
  }

  const users = createUsers(connections, options)
  const signingKey = createSigningKeys(statements)
  const copies = createCopyStore(statements, {
    lastGivenId: LAST_GIVEN_ID,
    // A role that only serves may not set the sequence itself.
    reserveIds: ['SELECT take_user_ids(ARRAY[$1::bigint])'],
  })
  const { read, last, ...housekeeping } = createPostgresUserChanges(connections)
  return {
    users: used(users, ['create', 'update', 'replaceDigest', 'delete', 'deleteAll']),
    changes: { ...used({ read, last }), ...housekeeping },
    imports: used(createPostgresUserImportStore(connections, now), ['write']),
    bans: used(createPostgresBanStore(statements, options), ['save', 'lift']),
    apiKeys: used(createApiKeyStore(statements), ['create', 'revoke', 'recordUses']),
    copies: used(copies),
    // What polls once a second is no use of the database.
    webhooks: createWebhookStore(statements),
    signingKey: name => untilReachable(() => signingKey(name)),
    // A statement sees what was committed before it.
    readAnew: () => {},
    isIdle,
    untilReachable,
    report: () => ({
      engine: 'postgres',
      waitingWrites: writes.count(),
      ...connections.report(),
    }),
    close: async () => {
      await connections.close(endInOrder())
    },
  }
}

/** Users in the table `users`. Those calls of one turn of the event loop that do the same share statements. */
function createUsers(
  connections: Connections,
  { now, steadyNow, onWarning }: OpenStorageOptions,
): UserRepository {
  const reads = createShortReads(connections, steadyNow)
  const parts = { connections, reads, contended: createContendedWrites(), now, steadyNow }
  return {
    ...reads,
    ...createPostgresUserLists(connections),
    ...createUserUpdates(parts),
    create: createUserCreate(parts),
    ping: createPing(connections, onWarning),
  }
}

/** Says once what must be mended. */
function createPing(connections: Connections, onWarning: OpenStorageOptions['onWarning']) {
  let wasHiding = false
  return async () => {
    await requireAllRows(connections).catch((error: unknown) => {
      if (error instanceof UnusableDatabase && !wasHiding) onWarning?.(HIDING, error)
      wasHiding ||= error instanceof UnusableDatabase
      throw error
    })
    wasHiding = false
    await connections.ping(PING)
  }
}
