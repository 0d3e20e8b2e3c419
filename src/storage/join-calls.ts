import { ServiceError } from '../errors.ts'
import { setImmediate } from '../platform/timers.ts'

/** Whether work failed because the database cannot be used now. */
export function isOutage(error: unknown): error is ServiceError {
  return (
    error instanceof ServiceError && ['storage_unavailable', 'outcome_unknown'].includes(error.code)
  )
}

/** What became of one item of a batch. */
export type Outcome<T> = { readonly value: T } | { readonly error: unknown }

export interface JoinOptions<In, Out> {
  /**
   * Runs all items at once and returns an outcome for each, in their order. If it throws, all of them fail, and if that is
   * because the storage cannot be used, also those that wait. `isAlone` is for items of `alone`.
   */
  readonly run: (items: readonly In[], isAlone: boolean) => Promise<readonly Outcome<Out>[]>
  /** Whether an error of `run` may be that of one item. Then each item of the batch runs alone, and the next batch begins. */
  readonly isOfOne?: (error: unknown) => boolean
}

/** A function for one item. Throws what `run` says of the item. */
export interface JoinedCalls<In, Out> {
  (item: In): Promise<Out>
  /** The same beside the batches, in a batch of its own. */
  alone(item: In): Promise<Out>
}

interface Pending<In, Out> {
  readonly item: In
  readonly resolve: (value: Out) => void
  readonly reject: (error: unknown) => void
}

/** The arrays of parameters stay in the order of a megabyte. */
const MAX_ITEMS = 2000

/**
 * Joins calls into batches. A batch begins after the turn of the event loop in which its first item came: a lone call waits
 * for nothing else. Calls that arrive while a batch runs form the next one, so at most one runs at a time.
 */
export function joinCalls<In, Out>({
  run,
  isOfOne = () => false,
}: JoinOptions<In, Out>): JoinedCalls<In, Out> {
  const pending: Pending<In, Out>[] = []
  let isBusy = false

  async function flush(): Promise<void> {
    const error = await runBatch(pending.splice(0, MAX_ITEMS))
    if (isOutage(error) && !isOfOne(error)) rejectPending(error)
    if (pending.length > 0) setImmediate(flush)
    else isBusy = false
  }

  /** Settles the calls of a batch. Returns the error of `run`, if it threw one. */
  async function runBatch(batch: readonly Pending<In, Out>[], isAlone = false): Promise<unknown> {
    try {
      const items = batch.map(({ item }) => item)
      const outcomes = await run(items, isAlone)
      for (const [index, { resolve, reject }] of batch.entries()) {
        const outcome = outcomes[index] as Outcome<Out>
        if ('error' in outcome) reject(outcome.error)
        else resolve(outcome.value)
      }
    } catch (error) {
      if (isOfOne(error) && batch.length > 1) for (const one of batch) runBatch([one])
      else for (const { reject } of batch) reject(error)
      return error
    }
    return undefined
  }

  /** They have waited as long as the batch that failed, and would wait as long again. */
  function rejectPending({ cause }: ServiceError): void {
    const error = new ServiceError('storage_unavailable', { cause })
    for (const { reject } of pending.splice(0)) reject(error)
  }

  const call = (item: In) =>
    new Promise<Out>((resolve, reject) => {
      pending.push({ item, resolve, reject })
      if (isBusy) return
      isBusy = true
      setImmediate(flush)
    })
  const alone = (item: In) =>
    new Promise<Out>((resolve, reject) => {
      runBatch([{ item, resolve, reject }], true)
    })
  return Object.assign(call, { alone })
}

/** The same for what is found by a key. A batch asks for each key once. */
export function joinLookups<K, V>(
  find: (keys: readonly K[]) => Promise<readonly (readonly [K, V])[]>,
): (key: K) => Promise<V | undefined> {
  return joinCalls({
    run: async keys => {
      const found = new Map(await find(keys.length === 1 ? keys : [...new Set(keys)]))
      return keys.map(key => ({ value: found.get(key) }))
    },
  })
}
