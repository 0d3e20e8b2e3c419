import { randomBytes } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { openLongReads } from '../../src/storage/sqlite/long-reads.ts'
import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../src/storage/sqlite/read-view.ts'
import { createSqliteUserRepository } from '../../src/storage/sqlite/sqlite-user-repository.ts'
import { createWriteQueue } from '../../src/storage/sqlite/write-queue.ts'
import { createCursors } from '../../src/users/cursor.ts'
import { createPasswordVerifications } from '../../src/users/password-verifications.ts'
import { createPasswordHasher, type PasswordHasher } from '../../src/users/passwords/hasher.ts'
import type { UserRepository } from '../../src/users/user-repository.ts'
import { createUserRules } from '../../src/users/user-schemas.ts'
import { createUserService } from '../../src/users/user-service.ts'

/**
 * Users in memory, and the calls of the password hasher: their cost is what a client could measure. `wrap` may replace calls
 * of the repository.
 */
export async function openUsers(
  wrap: (repository: UserRepository) => Partial<UserRepository> = () => ({}),
) {
  const database = await openSqlite({ path: ':memory:', now: Date.now })
  const view = createReadView(database)
  const writes = createWriteQueue(database, view)
  onTestFinished(async () => {
    await writes.close()
    view.end()
    database.close()
  })
  const asked: string[] = []
  const longReads = openLongReads(database)
  const repository = createSqliteUserRepository({
    database,
    writes,
    view,
    longReads,
    now: Date.now,
    steadyNow: Date.now,
  })
  const users = { ...repository, ...wrap(repository) }
  const hasher = createPasswordHasher()
  const passwords = new Proxy(hasher, {
    get: (_target, name: keyof PasswordHasher) => {
      if (name !== 'waiting') asked.push(name)
      return hasher[name]
    },
  })
  const rules = createUserRules({ passwordMinChars: 8 })
  const cursors = createCursors(randomBytes(32))
  return {
    users: createUserService({ users, passwords, cursors, rules }),
    verifications: createPasswordVerifications({
      users,
      passwords,
      rules,
      onUpgradeFailure: error => {
        throw error
      },
    }),
    asked,
  }
}
