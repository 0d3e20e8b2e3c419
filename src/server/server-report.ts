/** What clients use of a server now, and what it has refused since its start. */
export interface ServerReport {
  /** Open connections. */
  readonly connections: number
  /** Requests that wait for their turn. */
  readonly waitingRequests: number
  /** Requests that were refused because they waited too long or too many waited. */
  readonly shedRequests: number
}
