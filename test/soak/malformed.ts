import type { Ask } from './client.ts'

const POST = { method: 'POST', path: '/users', route: '/users' }

const json = (value: unknown) => ({ body: JSON.stringify(value) })

/** Requests that the service refuses, each with the status of the refusal. */
export const MALFORMED: readonly (readonly [Ask, number])[] = [
  [{ ...POST, body: '{"user": ' }, 400],
  [{ ...POST, ...json({}) }, 422],
  [{ ...POST, ...json({ user: { name: '', email: 'nobody', password: 'short' } }) }, 422],
  [{ ...POST, body: 'user', headers: { 'Content-Type': 'text/plain' } }, 415],
  [{ ...POST, ...json({ user: { name: 'x'.repeat(200_000) } }) }, 413],
  [{ ...POST, ...json({}), headers: { 'Idempotency-Key': 'no spaces' } }, 400],
  [{ ...POST, ...json({}), key: 'reader' }, 403],
  [{ ...POST, ...json({}), key: 'none' }, 401],
  [{ ...POST, ...json({}), key: 'unknown' }, 401],
  [{ method: 'GET', path: '/users?per_page=0', route: '/users' }, 400],
  [{ method: 'GET', path: '/users?after=forged', route: '/users' }, 400],
  [{ method: 'GET', path: '/users', route: '/users', key: 'verifier' }, 403],
  [{ method: 'GET', path: '/users', route: '/users', headers: { Accept: 'image/png' } }, 406],
  [{ method: 'GET', path: '/users/none', route: '/users/{id}' }, 404],
  [{ method: 'PUT', path: '/users', route: '/users', ...json({}) }, 405],
  [{ method: 'GET', path: '/nowhere', route: '' }, 404],
  [
    {
      ...{ method: 'GET', path: '/users/1', route: '/users/{id}' },
      headers: { 'User-Agent': 'soak-blocked/1' },
    },
    403,
  ],
]
