import { randomBytes } from 'node:crypto'
import { createCursors } from '../../src/users/cursor.ts'
import { createPasswordHasher, type PasswordHasher } from '../../src/users/passwords/hasher.ts'
import type { UserRepository } from '../../src/users/user-repository.ts'
import { createUserRules } from '../../src/users/user-schemas.ts'
import { createUserService } from '../../src/users/user-service.ts'
import { openSqliteStored } from './stored.ts'

/**
 * Users in memory, and the calls of the password hasher: their cost is what a client could measure. `wrap` may replace calls
 * of the repository.
 */
export async function openUsers(
  wrap: (repository: UserRepository) => Partial<UserRepository> = () => ({}),
) {
  const asked: string[] = []
  const { users: repository } = await openSqliteStored(':memory:')
  const users = { ...repository, ...wrap(repository) }
  const hasher = createPasswordHasher()
  const passwords = new Proxy(hasher, {
    get: (_target, name: keyof PasswordHasher) => {
      if (name === 'hashAll') {
        return (all: readonly string[]) => {
          asked.push(...all.map(() => 'hash'))
          return hasher.hashAll(all)
        }
      }
      if (name !== 'waiting' && name !== 'isCommon') asked.push(name)
      return hasher[name]
    },
  })
  const rules = createUserRules({ passwordMinChars: 8 })
  const cursors = createCursors(randomBytes(32))
  return {
    users: createUserService({
      onWrite: () => {},
      ...{ users, passwords, cursors, rules },
      onUpgradeFailure: error => {
        throw error
      },
    }),
    asked,
  }
}
