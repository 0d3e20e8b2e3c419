/** How many lists a client may get in a minute. */
export const LISTS_A_MINUTE = 40

/** Banned with the last of them. */
export const STRIKES = 3

/** Only the second version blocks it. */
export const LATER_BLOCKED_AGENT = 'soak-later'

const FIRST = {
  rateLimits: [{ name: 'writes', to: 1_000_000, within: '1 minute', except: ['list', 'read'] }],
  blocklist: [{ name: 'agents', userAgent: 'soak-blocked*' }],
  throttle: [
    { name: 'lists', path: '/users', method: 'GET', limit: LISTS_A_MINUTE, period: '1 minute' },
    { name: 'tried', path: '/users/*', limit: 1, period: '1 minute', dryRun: true },
  ],
  bans: [
    {
      name: 'scanners',
      path: '/wp-*',
      ...{ maxretry: STRIKES, findtime: '1 minute', bantime: '1 minute', mode: 'fail2ban' },
    },
    {
      name: 'tried',
      path: '/users/*',
      status: [404, 412],
      ...{ maxretry: 2, findtime: '1 minute', bantime: '1 minute', dryRun: true },
    },
  ],
  track: [{ name: 'logins', path: '/password-verifications', limit: 1, period: '1 minute' }],
}

/** The limits file before and after a reload. */
export const RULES = {
  first: FIRST,
  second: {
    ...FIRST,
    blocklist: [{ name: 'agents', userAgent: ['soak-blocked*', LATER_BLOCKED_AGENT] }],
  },
} as const
