import { ServiceError } from '../../errors.ts'
import { withinPatience } from '../../waiting/patience.ts'
import type { CallKind, Calls } from '../../workers/calls.ts'
import { ADD_BAN, GREET, LIFT_BANS, LIST_BANS } from './operation-calls.ts'
import type { Operations } from './operations.ts'

/** A worker looks for changes of the bans now. */
const FOLLOW_BANS: CallKind<null, void> = { name: 'follow bans' }

/** A worker answers when the store has the bans that it has made. */
const SAVED_BANS: CallKind<null, void> = { name: 'saved bans' }

/** A worker that takes longer is stopped. It follows the bans when it goes on. */
const PATIENCE_MS = 1000

/** What operators do with bans. */
export type BanOperations = Pick<Operations, 'listBans' | 'addBan' | 'liftBans'>

/** What a worker does with bans for the first process. */
export interface WorkerBanOperations extends BanOperations {
  /** Resolves once this process obeys all bans that were stored before this call, and none that was lifted before it. */
  followBans(): Promise<void>
  /** Resolves when the store has the bans that this process has made, or cannot have them. */
  savedBans(): Promise<void>
}

/** In a worker, before it serves: does what the first process asks of it. */
export function answerBanOperations(firstProcess: Calls, operations: WorkerBanOperations): void {
  firstProcess.handle(GREET, () => {})
  firstProcess.handle(LIST_BANS, operations.listBans)
  firstProcess.handle(ADD_BAN, operations.addBan)
  firstProcess.handle(LIFT_BANS, operations.liftBans)
  firstProcess.handle(FOLLOW_BANS, operations.followBans)
  firstProcess.handle(SAVED_BANS, operations.savedBans)
}

/**
 * In the first process: lets any worker that answers work on the bans, and the others follow before this resolves. What a
 * worker has begun that dies is done again by another one: the number of bans that were lifted may then be too low. Throws
 * `storage_unavailable` if no worker answers.
 */
export function delegateBans(serving: () => readonly Calls[]): BanOperations {
  async function askOne<Question, Answer>(
    kind: CallKind<Question, Answer>,
    question: Question,
  ): Promise<Answer> {
    const dead = new Set<Calls>()
    for (;;) {
      const worker = await findAnswering(serving().filter(calls => !dead.has(calls)))
      try {
        return await worker.ask(kind, question)
      } catch (error) {
        if (!worker.isClosed()) throw error
        dead.add(worker)
      }
    }
  }

  async function askAll(kind: CallKind<null, void>): Promise<void> {
    await Promise.allSettled(
      serving().map(calls => withinPatience(PATIENCE_MS, calls.ask(kind, null))),
    )
  }

  /** Workers obey the bans that they make before the store has them, and all answers are about the store. */
  const saveEverywhere = () => askAll(SAVED_BANS)

  /** A worker that does not answer looks for changes by itself, twice a second. */
  const followEverywhere = () => askAll(FOLLOW_BANS)

  return {
    listBans: async query => {
      await saveEverywhere()
      return askOne(LIST_BANS, query)
    },

    addBan: async order => {
      await saveEverywhere()
      const ban = await askOne(ADD_BAN, order)
      await followEverywhere()
      return ban
    },

    liftBans: async selection => {
      await saveEverywhere()
      const lifted = await askOne(LIFT_BANS, selection)
      await followEverywhere()
      return lifted
    },
  }
}

/** The first worker that answers: one that is stopped must not do later what another one does now. */
async function findAnswering(workers: readonly Calls[]): Promise<Calls> {
  const answers = workers.map(async calls => {
    await withinPatience(PATIENCE_MS, calls.ask(GREET, null))
    return calls
  })
  try {
    return await Promise.any(answers)
  } catch (cause) {
    throw new ServiceError('storage_unavailable', { cause })
  }
}
