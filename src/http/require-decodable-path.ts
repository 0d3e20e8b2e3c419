import type { RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'

/** Throws `path_malformed` for a path whose percent-encoding cannot be decoded. */
export const requireDecodablePath: RequestHandler = (request, _response, next) => {
  try {
    if (request.path.includes('%')) decodeURIComponent(request.path)
  } catch (cause) {
    throw new ServiceError('path_malformed', { cause })
  }
  next()
}
