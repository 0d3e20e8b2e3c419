import { type Config, describeProblem } from './config/settings.ts'
import { openPasswordBlocklist, type PasswordBlocklist } from './users/passwords/blocklist.ts'

/** Opens the file of PASSWORD_BLOCKLIST; `undefined` without one. Rejects with `OperatorError` if it cannot be used. */
export async function openBlocklist({
  passwordBlocklist: path,
}: Pick<Config, 'passwordBlocklist'>): Promise<PasswordBlocklist | undefined> {
  if (path === undefined) return undefined
  return openPasswordBlocklist(path, why => describeProblem('PASSWORD_BLOCKLIST', path, why))
}
