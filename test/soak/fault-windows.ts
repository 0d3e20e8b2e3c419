/** What is broken on purpose. */
export type Fault =
  | 'database'
  | 'redis'
  | 'restart'
  | 'kill'
  | 'key is being revoked'
  | 'revoked key'

interface Window {
  readonly fault: Fault
  /** The service that it is about; all if left out. */
  readonly service: string | undefined
  readonly from: number
  to: number
}

/** When which fault was planned, so that answers can be judged by the moment in which they were given. */
export interface FaultWindows {
  /** Begins a window. Call the result at its end. */
  open(fault: Fault, service?: string): () => void
  /** Whether what took from `from` until `to`, or until now, may have met the fault. */
  met(fault: Fault, from: number, service?: string, to?: number): boolean
}

export function createFaultWindows(): FaultWindows {
  const windows: Window[] = []
  return {
    open: (fault, service) => {
      const window = { fault, service, from: Date.now(), to: Number.POSITIVE_INFINITY }
      windows.push(window)
      return () => {
        window.to = Date.now()
      }
    },
    met: (fault, from, service, to = Date.now()) =>
      windows.some(
        window =>
          window.fault === fault &&
          (service === undefined || window.service === undefined || window.service === service) &&
          window.from <= to &&
          window.to >= from,
      ),
  }
}
