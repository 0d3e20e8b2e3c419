import type { CallKind, Calls } from '../../../workers/calls.ts'
import { type Failure, failureOf } from '../../../workers/failures.ts'
import { handleForwarded } from '../../../workers/forwarded-calls.ts'
import type { IndexingProgress, OpenStorageOptions, Storage } from '../../storage.ts'
import type { StorageReport } from '../../storage-report.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { openSqliteStorage } from '../open-sqlite-storage.ts'
import {
  CREATE_USER,
  DELETE_USER,
  fromSentClaim,
  fromSentUse,
  LIFT_BANS,
  READ_BAN_REVISION,
  RECORD_API_KEY_USES,
  REPLACE_DIGEST,
  SAVE_BAN,
  UPDATE_USER,
} from './write-calls.ts'

/** Opens the database, and creates or migrates it if needed. Comes before all other calls. */
export const OPEN_DATABASE: CallKind<WriterQuestion, WriterAnswer> = { name: 'open database' }

/** Finishes the writes that wait, and closes the database. */
export const CLOSE_DATABASE: CallKind<undefined, void> = { name: 'close database' }

/** Works as `Storage.report`. */
export const REPORT_STORAGE: CallKind<undefined, StorageReport> = { name: 'report storage' }

/** What `OpenStorageOptions.onWarning` is called with. */
export const WARN: CallKind<{ readonly message: string; readonly cause?: Failure }, void> = {
  name: 'warn',
}

/** What `OpenStorageOptions.onIndexing` is called with. */
export const TELL_INDEXING: CallKind<IndexingProgress, void> = { name: 'tell indexing' }

export interface WriterQuestion {
  readonly path: string
  /** What `steadyNow` is ahead of `process.hrtime`, in milliseconds. All threads of a process share that clock. */
  readonly steadyOffsetMs: number
}

/** Why the database cannot be used, if it cannot. */
export interface WriterAnswer {
  readonly unusable?: {
    readonly message: string
    readonly file?: string
    readonly isFault: boolean
  }
}

export type WriterClocks = Pick<OpenStorageOptions, 'now' | 'steadyNow'>

/** The work of the thread that writes for all workers: it has the only connection that writes. */
export function runWriter(calls: Calls, clocks?: WriterClocks): void {
  calls.handle(OPEN_DATABASE, async ({ path, steadyOffsetMs }) => {
    const { now, steadyNow } = clocks ?? clocksOf(steadyOffsetMs)
    try {
      const storage = await openSqliteStorage(path, {
        now,
        steadyNow,
        // Each worker limits its own.
        maxWaitingWrites: Number.POSITIVE_INFINITY,
        ifMissing: 'create',
        mustPersist: true,
        isWriterThread: true,
        onIndexing: progress => calls.tell(TELL_INDEXING, progress),
        onWarning: (message, cause) =>
          calls.tell(WARN, { message, ...(cause !== undefined && { cause: failureOf(cause) }) }),
      })
      answerWrites(calls, storage)
      calls.handle(REPORT_STORAGE, storage.report)
      calls.handle(CLOSE_DATABASE, storage.close)
      return {}
    } catch (error) {
      if (!(error instanceof UnusableDatabase)) throw error
      const { message, file, isFault } = error
      return { unusable: { message, isFault, ...(file !== undefined && { file }) } }
    }
  })
}

function answerWrites(
  calls: Calls,
  { users, bans, apiKeys }: Pick<Storage, 'users' | 'bans' | 'apiKeys'>,
): void {
  const forwarded = handleForwarded(calls)
  forwarded.handle(CREATE_USER, ({ user, claim }) =>
    users.create(user, claim && fromSentClaim(claim)),
  )
  forwarded.handle(UPDATE_USER, ({ id, change, expected }) => users.update(id, change, expected))
  forwarded.handle(REPLACE_DIGEST, ({ id, replacement }) => users.replaceDigest(id, replacement))
  forwarded.handle(DELETE_USER, ({ id, expected }) => users.delete(id, expected))
  calls.handle(SAVE_BAN, bans.save)
  calls.handle(LIFT_BANS, bans.lift)
  calls.handle(READ_BAN_REVISION, bans.revision)
  forwarded.handle(RECORD_API_KEY_USES, uses => apiKeys.recordUses(uses.map(fromSentUse)))
}

function clocksOf(steadyOffsetMs: number): WriterClocks {
  return { now: Date.now, steadyNow: () => Math.floor(steadyOffsetMs + readHrtimeMs()) }
}

/** A clock that all threads of a process share, unlike `performance.now`. */
export function readHrtimeMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
