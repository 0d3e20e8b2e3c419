import type { ErrorCode } from '../errors.ts'

/** The fields that the service adds to Express' request, apart from those of the limits. Nothing imports this file. */

/** What the server knows of a request. */
interface Arrival {
  /** When its turn on its connection came, by `performance.now()`. */
  at: number
  /** The scheme of a target in absolute form, in lower case: the application refuses any but its own. */
  targetScheme?: string | undefined
  /** Whether the client waits for `100 Continue` before it sends the body. */
  awaitsContinue?: boolean
  /** Whether admission shed it: the application then answers `overloaded`. */
  isShed?: boolean
  /** Whether it came too late to be answered: the application then answers `shutting_down`. */
  isTooLate?: boolean
  /** Whether the server listens on loopback only. */
  isOnLoopback?: boolean
}

/** What the log line of a request has beyond what all have. */
interface Line {
  /** The code of the error it was answered with. */
  readonly reason?: ErrorCode
  /** The id of the user that it has read, created, changed, deleted or verified, once it has succeeded. */
  readonly user?: number | undefined
  /** The names of the attributes that it created or changed the user by. */
  readonly fields?: readonly string[]
  /** How many users it has created or deleted, of several. */
  readonly users?: number
  readonly [name: string]: unknown
}

declare global {
  namespace Express {
    interface Request {
      /** Set by the server. */
      arrival: Arrival

      /** Replaced by whoever adds to it, never changed: a limit that lets the request pass after all puts it back. */
      line?: Line | undefined

      /**
       * The value of `X-Request-Id`: the client's own if it is sane, otherwise a new one. Set by the request log, or by the
       * parser's error handling for a request that did not get that far; read by every response and log line.
       */
      id: string

      /** Of `request.ip`, once somebody has asked for it. */
      clientAddress?: string | undefined

      /** The valid API key that it has. Set before the limits if keys are required. */
      apiKey?: { readonly name: string; readonly scopes: ReadonlySet<string> }

      /** Why the key that it has is not valid. */
      keyProblem?: 'malformed' | 'unknown' | 'expired'

      /**
       * Headers that the limits add to the response, whatever its status. Read by `writeReply`. Not set on the response
       * itself: with `setHeader`, Node checks and merges all headers one by one, for 10 µs.
       */
      replyHeaders?: Record<string, string> | undefined
    }
  }
}
