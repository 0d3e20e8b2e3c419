import type { IncomingMessage } from 'node:http'
import { countHeader } from './header-count.ts'

/** Version, id of the trace, id of the span, flags; only later versions may have more. */
const TRACEPARENT =
  /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:-|$)/

/** The length of a `traceparent` of version 00. */
const LENGTH = 55

/**
 * The id of the trace that a request belongs to: 32 hexadecimal digits of its `traceparent`. `undefined` if the header is
 * absent, invalid or sent twice: W3C Trace Context 3.2.2 and 4.3.
 */
export function traceIdOf({
  headers: { traceparent },
  rawHeaders,
}: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): string | undefined {
  if (typeof traceparent !== 'string') return undefined
  const traceId = TRACEPARENT.exec(traceparent)?.[1]
  if (traceId === undefined || traceparent.length === LENGTH) return traceId
  // Several headers arrive joined by a comma, which the rest of a later version may contain.
  return traceparent.startsWith('00') || countHeader(rawHeaders, 'traceparent') > 1
    ? undefined
    : traceId
}
