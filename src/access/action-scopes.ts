import type { Action } from '../http/actions.ts'
import type { Scope } from './scopes.ts'

/** The scope that a key needs for each action. */
export const SCOPE_OF_ACTION: Readonly<Record<Action, Scope>> = {
  list: 'users:read',
  read: 'users:read',
  create: 'users:write',
  update: 'users:write',
  delete: 'users:write',
  verify: 'passwords:verify',
}
