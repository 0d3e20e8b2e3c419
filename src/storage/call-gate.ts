import { ServiceError } from '../errors.ts'

/**
 * Counts the calls that run or wait: lets up to `most` in at a time, and knows when all have ended. A call of several writes may
 * count as several.
 */
export function createCallGate(most = Number.POSITIVE_INFINITY) {
  let inside = 0
  let closed: Promise<void> | undefined
  let onEmpty: (() => void) | undefined

  return {
    /** Before a call. Throws `shutting_down` after `close`, and `overloaded` while there is no room for a call of this size. */
    enter: (size = 1) => {
      if (closed !== undefined) throw new ServiceError('shutting_down')
      if (inside + size > most) throw new ServiceError('overloaded')
      inside += size
    },
    leave: (size = 1) => {
      inside -= size
      if (inside === 0) onEmpty?.()
    },
    count: () => inside,
    /** From now on no call enters. Resolves once all have left. */
    close: (): Promise<void> => {
      closed ??= new Promise(resolve => {
        onEmpty = resolve
        if (inside === 0) resolve()
      })
      return closed
    },
  }
}

/** The same function, each call of which is inside the gate until it ends. */
export function through<Args extends readonly unknown[], Result>(
  gate: ReturnType<typeof createCallGate>,
  call: (...args: Args) => Promise<Result>,
  sizeOf: (...args: Args) => number = () => 1,
): (...args: Args) => Promise<Result> {
  return async (...args) => {
    const size = sizeOf(...args)
    gate.enter(size)
    try {
      return await call(...args)
    } finally {
      gate.leave(size)
    }
  }
}
