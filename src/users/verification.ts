import { ServiceError } from '../errors.ts'
import { isCurrentDigest } from './passwords/parse-digest.ts'
import { parseBody, refusalOf } from './user-body.ts'
import type { StoredUser } from './user-repository.ts'
import { fieldError, isPossibleEmail, isPossiblePassword } from './user-schemas.ts'
import type { UserServiceOptions } from './user-service.ts'

/**
 * Replaces the digest of a user by a current one of the password that it verified, in the background. Clients cannot see it,
 * and a password that was changed meanwhile stays.
 */
export function createUpgrade({ users, passwords, onUpgradeFailure }: UserServiceOptions) {
  /** Users whose digest is being replaced. */
  const upgrading = new Set<number>()

  return async (id: number, previous: string, password: string): Promise<void> => {
    if (isCurrentDigest(previous) || upgrading.has(id)) return
    upgrading.add(id)
    try {
      await users.replaceDigest(id, { previous, next: await passwords.hash(password) })
    } catch (error) {
      if (!(error instanceof ServiceError)) onUpgradeFailure(error)
    } finally {
      upgrading.delete(id)
    }
  }
}

/** Verifies passwords for other programs. */
export function createVerification(
  { users, passwords, rules }: Pick<UserServiceOptions, 'users' | 'passwords' | 'rules'>,
  upgrade: ReturnType<typeof createUpgrade>,
) {
  /** The user that a body names, by e-mail or id, and the password in it. Throws `validation_failed`. */
  async function findLogin(body: unknown) {
    const sent = Object(Object(body).user)
    if (sent.id === undefined) {
      const { user, errors } = parseBody(rules.login, body)
      if (user === undefined) throw refusalOf(errors)
      const { email, password } = user
      const found = isPossibleEmail(email) ? await users.findByEmail(email) : undefined
      return { password, found }
    }
    const { user, errors } = parseBody(rules.loginById, body)
    const both = sent.email === undefined ? [] : [EMAIL_WITH_ID]
    if (user === undefined || both.length > 0) throw refusalOf([...errors, ...both])
    const { id, password } = user
    const found = Number.isSafeInteger(id) ? await users.findWithDigest(id) : undefined
    return { password, found }
  }

  /**
   * The user with the e-mail or the id, and the password, of a body. Replaces its digest afterwards, unless that may be of a
   * longer password. Throws `validation_failed`, and `wrong_credentials` for an unknown e-mail or id, a user without a
   * password and a wrong password, after about the same time.
   */
  return async (body: unknown): Promise<StoredUser> => {
    const { password, found } = await findLogin(body)
    const isPossible = isPossiblePassword(password)
    const digest = isPossible ? (found?.passwordDigest ?? undefined) : undefined
    const verified = await passwords.verifyEvenly(digest, isPossible ? password : '')
    if (verified === false || found === undefined || digest === undefined) {
      throw new ServiceError('wrong_credentials')
    }
    const { user } = found
    if (verified === 'whole') void upgrade(user.id, digest, password)
    return user
  }
}

const EMAIL_WITH_ID = fieldError('email', ["can't be sent together with id"])

/** What limits by the e-mail count a login by id by: its id. */
export function splitLogin(body: unknown): readonly unknown[] | undefined {
  const { id } = Object(Object(body).user)
  return typeof id === 'number' ? [{ user: { email: String(id) } }] : undefined
}
