import type { NextFunction, Response } from 'express'
import { ServiceError } from '../errors.ts'

/**
 * Answers a denied request: calls `next` with an error, or lets a function of the rule answer. Calls `next` without an error
 * if that function lets the request pass.
 */
export type Denial = (response: Response, next: NextFunction) => void

// Made once, so that a flood of denied requests does not create an error for each.
const BLOCKED = new ServiceError('blocked')

/** Answers 403. */
export const denyBlocked: Denial = (_response, next) => next(BLOCKED)
