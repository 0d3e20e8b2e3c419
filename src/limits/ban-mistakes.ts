import { ServiceError } from '../errors.ts'

/** Why an operator's order to ban a client is refused. */
export interface BanMistake {
  readonly field: 'rule' | 'client' | 'for'
  readonly problem:
    | 'blank'
    | 'no text'
    | 'no limits file'
    | 'nothing counts'
    | 'unknown'
    | 'dry run'
    | 'no such client'
    | 'no time'
  /** What is wrong, for clients of the management port. */
  readonly message: string
}

/** Without the rules of a file no client is banned. */
export const NO_LIMITS_FILE: BanMistake = {
  field: 'rule',
  problem: 'no limits file',
  message: 'is unknown: LIMITS_FILE is not set, and without its rules no client is banned',
}

/** The error for the management port. */
export function banRefused(mistakes: readonly BanMistake[]): ServiceError {
  const errors = mistakes.map(({ field, message }) => {
    return { field, at: { pointer: `/ban/${field}` }, messages: [message] }
  })
  return new ServiceError('validation_failed', { errors })
}
