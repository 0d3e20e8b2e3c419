import type { z } from 'zod'
import { type FieldError, ServiceError } from '../errors.ts'
import type { Handling } from './user-body.ts'
import {
  EMAIL_TAKEN,
  emailKey,
  PASSWORD_COMMON,
  type Parsed,
  parseBody,
  takenEmail,
  type UserInput,
} from './user-schemas.ts'

/** A valid user, or every rule that it breaks. */
export type Judged<T> = { readonly user: T } | { readonly errors: readonly FieldError[] }

export interface JudgeOptions {
  /** Whether nobody may choose a password. */
  readonly isCommon?: ((password: string) => Promise<boolean>) | undefined
  /** Whether a user other than `exceptId` has an e-mail. Without it, e-mails are left to the storage, as in an import. */
  readonly isEmailTaken?: (email: string, exceptId?: number) => Promise<boolean>
}

/**
 * Returns a function that judges the user of each body by a schema. Of users with one e-mail only the first that is valid
 * has it. `exceptId` is the user that a body changes. Whether a stored user has the e-mail is asked for wrong ones only, because storing a valid one tells it.
 */
export function createJudge({ isCommon, isEmailTaken }: JudgeOptions) {
  async function findCommon<T>(one: Parsed<T>): Promise<Parsed<T>> {
    const { password, errors } = one
    if (password === undefined || !(await isCommon?.(password))) return one
    return { ...one, errors: [...errors, PASSWORD_COMMON] }
  }

  return async <T extends UserInput>(
    schema: z.ZodType<T>,
    bodies: readonly unknown[],
    { isStrict, exceptId }: Handling & { readonly exceptId?: number | undefined } = {},
  ): Promise<readonly Judged<T>[]> => {
    const parsed = bodies.map(body => parseBody(schema, body, isStrict))
    const checked = isCommon ? await Promise.all(parsed.map(findCommon)) : parsed
    if (isEmailTaken === undefined) return checked.map(verdictOf)
    const isRepeated = createRepeatFinder()
    const judged = checked.map(one => {
      const isTaken = isRepeated(one)
      const { email, errors } = one
      if (isTaken) return verdictOf(withTaken(one))
      if (errors.length === 0 || email === undefined) return verdictOf(one)
      return isEmailTaken(email, exceptId).then(taken => verdictOf(taken ? withTaken(one) : one))
    })
    return Promise.all(judged)
  }
}

/** `email_taken` if nothing else is wrong, otherwise `validation_failed`. */
export function refusalOf(errors: readonly FieldError[]): ServiceError {
  const isOnlyTaken = errors.length === 1 && errors[0] === EMAIL_TAKEN
  return isOnlyTaken ? takenEmail() : new ServiceError('validation_failed', { errors })
}

function verdictOf<T>({ user, errors }: Parsed<T>): Judged<T> {
  return errors.length > 0 ? { errors } : { user: user as T }
}

/** In the order of the fields: only the name comes before the e-mail. */
function withTaken<T>(one: Parsed<T>): Parsed<T> {
  const { errors } = one
  return { ...one, errors: errors.toSpliced(errors[0]?.field === 'name' ? 1 : 0, 0, EMAIL_TAKEN) }
}

/** Returns a function that tells whether a valid user before has the same e-mail: that one is made, or its e-mail is taken. */
function createRepeatFinder() {
  const seen = new Set<string>()
  return ({ email, errors }: Parsed<unknown>): boolean => {
    if (email === undefined) return false
    const key = emailKey(email)
    if (seen.has(key)) return true
    if (errors.length === 0) seen.add(key)
    return false
  }
}
