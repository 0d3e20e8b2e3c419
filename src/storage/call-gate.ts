import { ServiceError } from '../errors.ts'

/** Counts the calls that run or wait: lets up to `most` in at a time, and knows when all have ended. */
export function createCallGate(most = Number.POSITIVE_INFINITY) {
  let inside = 0
  let closed: Promise<void> | undefined
  let onEmpty: (() => void) | undefined
  return {
    /** Before a call. Throws `shutting_down` after `close`, and `overloaded` while as many as allowed are inside. */
    enter: () => {
      if (closed !== undefined) throw new ServiceError('shutting_down')
      if (inside >= most) throw new ServiceError('overloaded')
      inside++
    },
    /** After a call that has entered, however it ended. */
    leave: () => {
      inside--
      if (inside === 0) onEmpty?.()
    },
    /** How many are inside. */
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
): (...args: Args) => Promise<Result> {
  return async (...args) => {
    gate.enter()
    try {
      return await call(...args)
    } finally {
      gate.leave()
    }
  }
}
