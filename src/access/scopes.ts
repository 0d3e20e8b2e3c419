import type { Action } from '../http/actions.ts'

/** What a key may be allowed to do. */
export const SCOPES = ['users:read', 'users:write', 'passwords:verify'] as const

export type Scope = (typeof SCOPES)[number]

/** The scopes among some words, each once, in the order of `SCOPES`. */
export function scopesAmong(words: readonly string[]): readonly Scope[] {
  return SCOPES.filter(scope => words.includes(scope))
}

/** The scope that a key needs for each action. */
export const SCOPE_OF_ACTION: Readonly<Record<Action, Scope>> = {
  list: 'users:read',
  read: 'users:read',
  create: 'users:write',
  update: 'users:write',
  delete: 'users:write',
  verify: 'passwords:verify',
}
