import type { Calls } from '../../../workers/calls.ts'
import { checkHistory } from '../../migrations.ts'
import type { OpenStorageOptions, ServiceStorage } from '../../storage.ts'
import { OLDER_SCHEMA, UnusableDatabase } from '../../unusable-database.ts'
import { watchFileBytes } from '../file-bytes.ts'
import { openToRead, readHistory, requireThere } from '../inspect-database.ts'
import { createLongLists } from '../long-lists.ts'
import { migrationsOfRelease } from '../migrator.ts'
import { CACHE_KIB } from '../open-sqlite.ts'
import { createReadView } from '../read-view.ts'
import { readSigningKey } from '../signing-keys.ts'
import { createSqliteApiKeyReader } from '../sqlite-api-key-reader.ts'
import { createSqliteBanLister } from '../sqlite-ban-lister.ts'
import { createSqliteBanLoader } from '../sqlite-ban-loader.ts'
import type { Database } from '../sqlite-driver.ts'
import { createSqliteUserReads } from '../sqlite-user-reads.ts'
import { explainErrors } from '../unusable-reasons.ts'
import { createRemoteWrites } from './remote-writes.ts'

export interface WorkerStorageOptions
  extends Pick<OpenStorageOptions, 'now' | 'steadyNow' | 'maxWaitingWrites'> {
  readonly path: string
  readonly firstProcess: Calls
}

/**
 * Opens the database of the writer of the first process: reads are done here, writes there. Throws `UnusableDatabase` if
 * the writer has not opened it.
 */
export async function openWorkerStorage(options: WorkerStorageOptions): Promise<ServiceStorage> {
  const { path, firstProcess, now, steadyNow, maxWaitingWrites } = options
  const database = await explainErrors(() => openReader(path))
  const view = createReadView(database)
  const writes = createRemoteWrites({ firstProcess, view, maxWaiting: maxWaitingWrites })
  const longLists = createLongLists(database)
  const fileBytes = watchFileBytes(path)
  // A ban has ended once both clocks say so: neither a clock that jumps nor a machine that slept shortens it.
  const banReading = { database, now: () => Math.min(steadyNow(), now()) }
  return {
    users: {
      ...createSqliteUserReads({ database, view, longLists, steadyNow }),
      ...writes.users,
    },
    bans: {
      load: createSqliteBanLoader(banReading),
      list: createSqliteBanLister(banReading),
      ...writes.bans,
    },
    apiKeys: { ...createSqliteApiKeyReader(database), ...writes.apiKeys },
    signingKey: async name => readSigningKey(database, name),
    readAnew: view.end,
    untilReachable: work => work(),
    report: async () => ({ engine: 'sqlite', waitingWrites: writes.waiting(), ...fileBytes() }),
    close: async () => {
      await writes.close()
      longLists.close()
      view.end()
      database.close()
    },
  }
}

/** A connection that cannot write. The writer has examined the file. */
function openReader(path: string): Database {
  requireThere(path)
  const database = openToRead(path)
  try {
    const migrations = migrationsOfRelease()
    const applied = readHistory(database)
    checkHistory(applied, migrations)
    if (applied.length < migrations.length) throw new UnusableDatabase(OLDER_SCHEMA)
    database.pragma('busy_timeout = 0')
    database.pragma(`cache_size = -${CACHE_KIB}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}
