/** What a key may be allowed to do. */
export const SCOPES = ['users:read', 'users:write', 'passwords:verify'] as const

export type Scope = (typeof SCOPES)[number]
