import { ServiceError } from '../errors.ts'

/** Counts the calls that run or wait, refuses those that are too many or too late, and knows when all have ended. */
export interface CallGate {
  /** Before a call. Throws `shutting_down` after `close`, and `overloaded` while as many as allowed are inside. */
  enter(): void
  /** After a call that has entered, however it ended. */
  leave(): void
  /** How many are inside. */
  count(): number
  /** From now on no call enters. Resolves once all have left. */
  close(): Promise<void>
}

/** Lets up to `most` calls in at a time. */
export function createCallGate(most = Number.POSITIVE_INFINITY): CallGate {
  let inside = 0
  let closed: Promise<void> | undefined
  let onEmpty: (() => void) | undefined
  return {
    enter: () => {
      if (closed !== undefined) throw new ServiceError('shutting_down')
      if (inside >= most) throw new ServiceError('overloaded')
      inside++
    },
    leave: () => {
      inside--
      if (inside === 0) onEmpty?.()
    },
    count: () => inside,
    close: () => {
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
  gate: CallGate,
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
