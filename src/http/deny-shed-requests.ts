import type { RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'

/** Throws `overloaded` for a request that admission has shed. */
export const denyShedRequests: RequestHandler = ({ isShed }, _response, next) => {
  next(isShed ? new ServiceError('overloaded') : undefined)
}
