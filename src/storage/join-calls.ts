import { ServiceError } from '../errors.ts'

/** What became of one item of a batch. */
export type Outcome<T> = { readonly value: T } | { readonly error: unknown }

export interface JoinOptions<In, Out> {
  /**
   * Runs all items at once and returns an outcome for each, in their order. If it throws, all of them fail, and if that is
   * because the storage cannot be used, also those that wait.
   */
  readonly run: (items: readonly In[]) => Promise<readonly Outcome<Out>[]>
  /** Whether an error of `run` may be that of one item. Then each item of the batch runs on its own, and the next batch begins. */
  readonly isOfOne?: (error: unknown) => boolean
}

interface Pending<In, Out> {
  readonly item: In
  readonly resolve: (value: Out) => void
  readonly reject: (error: unknown) => void
}

/** The arrays of parameters stay in the order of a megabyte. */
const MAX_ITEMS = 2000

/**
 * A function for one item, whose calls are joined into batches. Throws what `run` says of the item. A batch begins after the turn
 * of the event loop in which its first item came: a lone call waits for nothing else. Calls that arrive while a batch runs form
 * the next one, so at most one runs at a time.
 */
export function joinCalls<In, Out>({
  run,
  isOfOne = () => false,
}: JoinOptions<In, Out>): (item: In) => Promise<Out> {
  const pending: Pending<In, Out>[] = []
  let isBusy = false

  async function flush(): Promise<void> {
    const batch = pending.splice(0, MAX_ITEMS)
    try {
      settle(batch, await run(batch.map(({ item }) => item)))
    } catch (error) {
      const isSplit = isOfOne(error)
      if (isSplit && batch.length > 1) for (const one of batch) runAlone(one)
      else fail(batch, error)
      if (!isSplit && isOfStorage(error)) rejectPending(error)
    }
    if (pending.length > 0) setImmediate(flush)
    else isBusy = false
  }

  function runAlone(one: Pending<In, Out>): void {
    run([one.item]).then(
      outcomes => settle([one], outcomes),
      error => fail([one], error),
    )
  }

  function settle(batch: readonly Pending<In, Out>[], outcomes: readonly Outcome<Out>[]): void {
    for (const [index, { resolve, reject }] of batch.entries()) {
      const outcome = outcomes[index] as Outcome<Out>
      if ('error' in outcome) reject(outcome.error)
      else resolve(outcome.value)
    }
  }

  function fail(batch: readonly Pending<In, Out>[], error: unknown): void {
    for (const { reject } of batch) reject(error)
  }

  /** They have waited as long as the batch that failed, and would wait as long again. */
  function rejectPending({ cause }: ServiceError): void {
    fail(pending.splice(0), new ServiceError('storage_unavailable', { cause }))
  }

  return item =>
    new Promise((resolve, reject) => {
      pending.push({ item, resolve, reject })
      if (isBusy) return
      isBusy = true
      setImmediate(flush)
    })
}

function isOfStorage(error: unknown): error is ServiceError {
  return (
    error instanceof ServiceError && ['storage_unavailable', 'outcome_unknown'].includes(error.code)
  )
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
