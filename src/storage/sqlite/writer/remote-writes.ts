import type { ApiKeyStore } from '../../../access/api-key-store.ts'
import { ServiceError } from '../../../errors.ts'
import type { BanStore } from '../../../limits/ban-store.ts'
import type { UserWrites } from '../../../users/user-repository.ts'
import type { CallKind, Calls } from '../../../workers/calls.ts'
import { createForwardedCalls } from '../../../workers/forwarded-calls.ts'
import type { ReadView } from '../read-view.ts'
import {
  CREATE_USER,
  DELETE_USER,
  LIFT_BANS,
  READ_BAN_REVISION,
  RECORD_API_KEY_USES,
  REPLACE_DIGEST,
  SAVE_BAN,
  toSentClaim,
  toSentUse,
  UPDATE_USER,
} from './write-calls.ts'

export interface RemoteWritesOptions {
  readonly firstProcess: Calls
  /** The view of the reads of this process. */
  readonly view: ReadView
  /** Writes that may wait at a time; a write beyond that throws `overloaded`. */
  readonly maxWaiting: number
}

/**
 * Writes of a worker, which the writer of the first process does. They throw `storage_unavailable` if that process is gone,
 * `outcome_unknown` if it went before it answered, and `shutting_down` after `close`.
 */
export interface RemoteWrites {
  readonly users: UserWrites
  readonly bans: Omit<BanStore, 'load' | 'list'>
  readonly apiKeys: Pick<ApiKeyStore, 'recordUses'>
  /** Writes that have not ended. */
  waiting(): number
  /** Ends once each write that waits has succeeded or failed. */
  close(): Promise<void>
}

export function createRemoteWrites(options: RemoteWritesOptions): RemoteWrites {
  const { firstProcess, view, maxWaiting } = options
  const writer = createForwardedCalls(firstProcess)
  let waiting = 0
  let closed: Promise<void> | undefined
  let onIdle: (() => void) | undefined

  async function write<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    if (closed !== undefined) throw new ServiceError('shutting_down')
    if (waiting >= maxWaiting) throw new ServiceError('overloaded')
    waiting++
    try {
      return await guard(ask, 'outcome_unknown')
    } finally {
      waiting--
      // The view may have begun before the commit, although it is of this turn.
      view.end()
      if (waiting === 0) onIdle?.()
    }
  }

  function writeForwarded<Question, Answer>(kind: CallKind<Question, Answer>, question: Question) {
    return write(() => writer.ask(kind, question))
  }

  async function guard<Answer>(
    ask: () => Promise<Answer>,
    ifUnanswered: 'outcome_unknown' | 'storage_unavailable',
  ): Promise<Answer> {
    const wasGone = firstProcess.isClosed()
    try {
      return await ask()
    } catch (cause) {
      if (wasGone) throw new ServiceError('storage_unavailable', { cause })
      throw firstProcess.isClosed() ? new ServiceError(ifUnanswered, { cause }) : cause
    }
  }

  return {
    users: {
      create: (user, claim) =>
        writeForwarded(CREATE_USER, { user, ...(claim && { claim: toSentClaim(claim) }) }),
      update: (id, change, expected) =>
        writeForwarded(UPDATE_USER, { id, change, ...(expected && { expected }) }),
      replaceDigest: (id, replacement) => writeForwarded(REPLACE_DIGEST, { id, replacement }),
      delete: (id, expected) => writeForwarded(DELETE_USER, { id, ...(expected && { expected }) }),
    },
    bans: {
      // The first process counts them, so it must read them.
      save: ban => write(() => firstProcess.ask(SAVE_BAN, ban)),
      lift: selection => write(() => firstProcess.ask(LIFT_BANS, selection)),
      revision: () =>
        guard(() => firstProcess.ask(READ_BAN_REVISION, undefined), 'storage_unavailable'),
    },
    apiKeys: {
      recordUses: uses => writeForwarded(RECORD_API_KEY_USES, uses.map(toSentUse)),
    },
    waiting: () => waiting,
    close: () => {
      closed ??= new Promise(resolve => {
        onIdle = resolve
        if (waiting === 0) resolve()
      })
      return closed
    },
  }
}
