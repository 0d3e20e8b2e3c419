import type { RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { countHeader } from './header-count.ts'

/** A registered name or an address, and a port: RFC 3986 3.2. */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/i

/**
 * Throws `request_malformed` for HTTP/1.1 without a Host, and for several or an invalid one: RFC 9112 3.2. A proxy in front
 * of the service may have used another of them.
 */
export const requireHost: RequestHandler = (request, _response, next) => {
  const { host } = request.headers
  const isMissing = host === undefined && request.httpVersion === '1.1'
  if (
    isMissing ||
    (host !== undefined && !HOST.test(host)) ||
    countHeader(request.rawHeaders, 'host') > 1
  ) {
    throw new ServiceError('request_malformed')
  }
  next()
}
