/** What is broken on purpose. */
export type Fault =
  | 'database'
  | 'redis'
  | 'restart'
  | 'kill'
  | 'key is being revoked'
  | 'revoked key'

/** When which fault was planned, so that answers can be judged by the moment in which they were given. */
export type FaultWindows = ReturnType<typeof createFaultWindows>

export function createFaultWindows() {
  const windows: { fault: Fault; service: string | undefined; from: number; to: number }[] = []
  return {
    /** Begins a window of one service, or of all. Call the result at its end. */
    open: (fault: Fault, service?: string) => {
      const window = { fault, service, from: Date.now(), to: Number.POSITIVE_INFINITY }
      windows.push(window)
      return () => {
        window.to = Date.now()
      }
    },
    /** Whether what took from `from` until `to`, or until now, may have met the fault. */
    met: (fault: Fault, from: number, service?: string, to = Date.now()): boolean =>
      windows.some(
        window =>
          window.fault === fault &&
          (service === undefined || window.service === undefined || window.service === service) &&
          window.from <= to &&
          window.to >= from,
      ),
  }
}
