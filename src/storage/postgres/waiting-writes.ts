type Write<Args extends readonly unknown[], Result> = (...args: Args) => Promise<Result>

/** Knows how many writes have not ended. */
export interface WaitingWrites {
  /** The same write, counted from the call to its end. */
  counted<Args extends readonly unknown[], Result>(write: Write<Args, Result>): Write<Args, Result>
  count(): number
}

export function createWaitingWrites(): WaitingWrites {
  let count = 0
  return {
    counted:
      write =>
      async (...args) => {
        count++
        try {
          return await write(...args)
        } finally {
          count--
        }
      },
    count: () => count,
  }
}
