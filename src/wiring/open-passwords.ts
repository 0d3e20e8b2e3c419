import { type Config, describeProblem } from '../config/settings.ts'
import { openPasswordBlocklist } from '../users/passwords/blocklist.ts'
import { createPasswordHasher, type HasherOptions } from '../users/passwords/hasher.ts'

/** Opens the hasher with the file of PASSWORD_BLOCKLIST, if it is set. Rejects with `OperatorError` if that cannot be used. */
export async function openPasswords(
  { passwordBlocklist: path }: Pick<Config, 'passwordBlocklist'>,
  options?: Omit<HasherOptions, 'blocklist'>,
) {
  const describe = (why: string) => describeProblem('PASSWORD_BLOCKLIST', path ?? '', why)
  const blocklist = path === undefined ? undefined : await openPasswordBlocklist(path, describe)
  return {
    passwords: createPasswordHasher({ ...options, blocklist }),
    close: async () => blocklist?.close(),
  }
}
