import { ServiceError } from '../errors.ts'
import { isCurrentDigest } from './passwords/digest.ts'
import type { PasswordHasher } from './passwords/hasher.ts'
import type { StoredUser, UserRepository } from './user-repository.ts'
import { isPossibleEmail, isPossiblePassword, parseBody, type UserRules } from './user-schemas.ts'

export type PasswordVerifications = ReturnType<typeof createPasswordVerifications>

/** Verifies the passwords of users for other programs. */
export function createPasswordVerifications(options: {
  readonly users: Pick<UserRepository, 'findByEmail' | 'replaceDigest'>
  readonly passwords: PasswordHasher
  readonly rules: UserRules
  /** Called when replacing a digest fails with anything but a `ServiceError`. The next verification tries again. */
  readonly onUpgradeFailure: (error: unknown) => void
}) {
  const { users, passwords, rules, onUpgradeFailure } = options
  /** Users whose digest is being replaced. */
  const upgrading = new Set<number>()

  /** Runs in the background. If it fails, the next verification tries again. */
  async function upgrade(id: number, previous: string, password: string): Promise<void> {
    if (upgrading.has(id)) return
    upgrading.add(id)
    try {
      // Replaces only the verified digest. A password that was changed meanwhile stays.
      await users.replaceDigest(id, { previous, next: await passwords.hash(password) })
    } catch (error) {
      if (!(error instanceof ServiceError)) onUpgradeFailure(error)
    } finally {
      upgrading.delete(id)
    }
  }

  return {
    /**
     * The user with the e-mail and the password of a body. Replaces its digest by a current one afterwards, if that is of
     * another kind or weaker. Throws `validation_failed`, and `wrong_credentials` for an unknown e-mail, a user without a
     * password and a wrong password, after about the same time.
     */
    verify: async (body: unknown): Promise<StoredUser> => {
      const parsed = parseBody(rules.schemas.login, body)
      if ('errors' in parsed) throw new ServiceError('validation_failed', { errors: parsed.errors })
      const { email, password } = parsed.user
      const found = isPossibleEmail(email) ? await users.findByEmail(email) : undefined
      const isPossible = isPossiblePassword(password)
      const digest = isPossible ? (found?.passwordDigest ?? undefined) : undefined
      const isRight = await passwords.verifyEvenly(digest, isPossible ? password : '')
      if (!isRight || found === undefined || digest === undefined) {
        throw new ServiceError('wrong_credentials')
      }
      const { user } = found
      if (!isCurrentDigest(digest)) void upgrade(user.id, digest, password)
      return user
    },
  }
}
