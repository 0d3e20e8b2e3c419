import type { UserRepository } from '../../users/user-repository.ts'
import { createSqliteUserReads, type SqliteUserReadsOptions } from './sqlite-user-reads.ts'
import { createSqliteUserWrites, type SqliteUserWritesOptions } from './sqlite-user-writes.ts'

/** Users in the table `users` of SQLite. Reads run at once; writes go through the queue. */
export function createSqliteUserRepository(
  options: SqliteUserReadsOptions & SqliteUserWritesOptions,
): UserRepository {
  return { ...createSqliteUserReads(options), ...createSqliteUserWrites(options) }
}
