import type { ErrorCode } from '../errors.ts'

/** The fields that the service adds to Express' request and response, apart from those of the limits. Nothing imports this file. */

/** Fields of the log line of a request. */
interface Subject {
  /** The id of the user that it has read, created, changed, deleted or verified. */
  readonly user?: number | undefined
  /** The names of the attributes that it created or changed the user by. */
  readonly fields?: readonly string[]
  /** How many users it has created. */
  readonly users?: number
}

declare global {
  namespace Express {
    interface Request {
      /**
       * When its turn on its connection came, by `performance.now()`. Set on admission; read by the request log and the
       * overload pause.
       */
      arrivedAt: number

      /** The scheme of a target in absolute form, in lower case: the application refuses any but its own. */
      targetScheme?: string | undefined

      /** Whether the client waits for `100 Continue` before it sends the body. */
      awaitsContinue?: boolean

      /** Whether admission shed it: the application then answers `overloaded`. */
      isShed?: boolean

      /**
       * The value of `X-Request-Id`: the client's own if it is sane, otherwise a new one. Set by the request log, or by the
       * parser's error handling for a request that did not get that far; read by every response and log line.
       */
      id: string

      /** The code of the error it was answered with. Set by `writeReply`; read by the request log. */
      errorReason?: ErrorCode

      /** The valid API key that it has. Set before the limits if keys are required. */
      apiKey?: { readonly name: string; readonly scopes: ReadonlySet<string> }

      /** Why the key that it has is not valid, for the log. */
      keyProblem?: 'malformed' | 'unknown' | 'expired'

      /** Further fields of its log line. Set by the limits and the check of keys; read by the request log. */
      logFields?: Readonly<Record<string, unknown>> | undefined

      /** Which users it was about, once it has succeeded. Set by the routes of users; read by the request log. */
      subject?: Subject

      /**
       * Headers that the limits add to the response, whatever its status. Read by `writeReply`. Not set on the response
       * itself: with `setHeader`, Node checks and merges all headers one by one, for 10 µs.
       */
      replyHeaders?: Record<string, string> | undefined
    }
  }
}
