import type { CallKind, Calls } from '../../../workers/calls.ts'
import { errorOf } from '../../../workers/failures.ts'
import { passOnForwarded } from '../../../workers/forwarded-calls.ts'
import type { OpenStorageOptions } from '../../storage.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { CLOSE_DATABASE, OPEN_DATABASE, readHrtimeMs, WARN } from './run-writer.ts'
import { LIFT_BANS, READ_BAN_REVISION, SAVE_BAN } from './write-calls.ts'

export interface WriterOptions extends Pick<OpenStorageOptions, 'steadyNow' | 'onWarning'> {
  readonly path: string
}

/** Writes for all workers. */
export interface WriterConnection {
  /** Handles the calls of one worker. */
  answer(worker: Calls): void
  /** Finishes the writes that wait, then closes the database. Call it when all workers are gone. */
  close(): Promise<void>
}

/** Lets a writer open the database. Throws `UnusableDatabase`. */
export async function connectWriter(
  writer: Calls,
  { path, steadyNow, onWarning }: WriterOptions,
): Promise<WriterConnection> {
  writer.handle(WARN, ({ message, cause }) => onWarning?.(message, cause && errorOf(cause)))
  const steadyOffsetMs = steadyNow() - readHrtimeMs()
  const { unusable } = await writer.ask(OPEN_DATABASE, { path, steadyOffsetMs })
  if (unusable !== undefined) throw new UnusableDatabase(unusable.message, unusable)
  return {
    answer: createAnswers(writer),
    close: () => writer.ask(CLOSE_DATABASE, undefined),
  }
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
