import type { CallKind, Calls } from '../../../workers/calls.ts'
import { errorOf } from '../../../workers/failures.ts'
import { passOnForwarded } from '../../../workers/forwarded-calls.ts'
import { createCommitRecorder } from '../../commit-recorder.ts'
import type { OpenStorageOptions } from '../../storage.ts'
import type { WriterReport } from '../../storage-report.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { watchFileBytes } from '../file-bytes.ts'
import {
  CLOSE_DATABASE,
  OPEN_DATABASE,
  REPORT_STORAGE,
  readHrtimeMs,
  TELL_INDEXING,
  WARN,
} from './run-writer.ts'
import { LIFT_BANS, READ_BAN_REVISION, SAVE_BAN } from './write-calls.ts'

export interface WriterOptions
  extends Pick<OpenStorageOptions, 'steadyNow' | 'onWarning' | 'onIndexing'> {
  readonly path: string
}

/** Writes for all workers. */
export interface WriterConnection {
  /** Handles the calls of one worker. */
  answer(worker: Calls): void
  /**
   * What the writer has done. Never fails, and hardly waits: while the writer is held up by the disk, or is gone, the commits
   * are those of its last report.
   */
  report(): Promise<WriterReport>
  /** Finishes the writes that wait, then closes the database. Call it when all workers are gone. */
  close(): Promise<void>
}

/** A batch of writes takes about 10 ms. */
const REPORT_PATIENCE_MS = 250

/** Lets a writer open the database. Throws `UnusableDatabase`. */
export async function connectWriter(
  writer: Calls,
  { path, steadyNow, onWarning, onIndexing }: WriterOptions,
): Promise<WriterConnection> {
  writer.handle(WARN, ({ message, cause }) => onWarning?.(message, cause && errorOf(cause)))
  writer.handle(TELL_INDEXING, progress => onIndexing?.(progress))
  const steadyOffsetMs = steadyNow() - readHrtimeMs()
  const { unusable } = await writer.ask(OPEN_DATABASE, { path, steadyOffsetMs })
  if (unusable !== undefined) throw new UnusableDatabase(unusable.message, unusable)
  return {
    answer: createAnswers(writer),
    report: createReports(writer, path),
    close: () => writer.ask(CLOSE_DATABASE, undefined),
  }
}

function createReports(writer: Calls, path: string): WriterConnection['report'] {
  const fileBytes = watchFileBytes(path)
  let commits = createCommitRecorder().read()
  let asked: Promise<void> | undefined

  async function ask(): Promise<void> {
    try {
      const report = await writer.ask(REPORT_STORAGE, undefined)
      commits = report.commits ?? commits
    } catch {
      // The writer is gone. `Writer.failed` tells that.
    } finally {
      asked = undefined
    }
  }

  return async () => {
    // Reports that are asked for while the writer is held up share one question.
    asked ??= ask()
    await atMost(REPORT_PATIENCE_MS, asked)
    return { commits, ...fileBytes() }
  }
}

/** Resolves when `work` has ended, or after `ms`. */
async function atMost(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const end = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, end])
  clearTimeout(timer)
}

function createAnswers(writer: Calls): WriterConnection['answer'] {
  /** How often workers have written bans. */
  let banWrites = 0

  return worker => {
    /** How often this worker has. */
    let ownBanWrites = 0

    function passOnBanWrites<Question, Answer>(kind: CallKind<Question, Answer>): void {
      worker.handle(kind, async question => {
        const answer = await writer.ask(kind, question)
        banWrites++
        ownBanWrites++
        return answer
      })
    }

    passOnForwarded(worker, writer)
    passOnBanWrites(SAVE_BAN)
    passOnBanWrites(LIFT_BANS)
    // The writer counts the changes by other programs. The worker knows its own.
    worker.handle(READ_BAN_REVISION, async () => {
      const revision = await writer.ask(READ_BAN_REVISION, undefined)
      return `${revision} ${banWrites - ownBanWrites}`
    })
  }
}
