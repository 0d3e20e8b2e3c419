import type { UserRepository } from '../../users/user-repository.ts'
import { createSqliteUserReads, type SqliteUserReadsOptions } from './sqlite-user-reads.ts'
import { createSqliteUserWrites, type SqliteUserWritesOptions } from './sqlite-user-writes.ts'

/** Users in the table `users` of SQLite. Reads run at once; writes go through the queue. */
export function createSqliteUserRepository({
  now,
  steadyNow = now,
  ...options
}: SqliteUserWritesOptions & Omit<SqliteUserReadsOptions, 'steadyNow'>): UserRepository {
  return {
    ...createSqliteUserReads({ ...options, steadyNow }),
    ...createSqliteUserWrites({ ...options, now, steadyNow }),
  }
}
