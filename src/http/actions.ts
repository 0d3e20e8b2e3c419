/** What a route does with the users. Limits and scopes choose routes by it. */
export const ACTIONS = ['list', 'read', 'create', 'update', 'delete', 'verify'] as const

export type Action = (typeof ACTIONS)[number]
