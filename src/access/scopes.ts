/** What a key may be allowed to do. */
export const SCOPES = ['users:read', 'users:write', 'passwords:verify'] as const

export type Scope = (typeof SCOPES)[number]

/** The scopes among some words, each once, in the order of `SCOPES`. */
export function scopesAmong(words: readonly string[]): readonly Scope[] {
  return SCOPES.filter(scope => words.includes(scope))
}
