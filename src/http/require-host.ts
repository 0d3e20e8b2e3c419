import type { RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'

/** A registered name or an address, and a port: RFC 3986 3.2. */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/i

/**
 * Throws `request_malformed` for HTTP/1.1 without a Host, and for several or an invalid one: RFC 9112 3.2. A proxy in front
 * of the service may have used another of them.
 */
export const requireHost: RequestHandler = (request, _response, next) => {
  const { host } = request.headers
  const isMissing = host === undefined && request.httpVersion === '1.1'
  if (isMissing || (host !== undefined && !HOST.test(host)) || hasTwoHosts(request.rawHeaders)) {
    throw new ServiceError('request_malformed')
  }
  next()
}

/** Node keeps the first of several. */
function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let count = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length === 4 && name.toLowerCase() === 'host') count++
  }
  return count > 1
}
