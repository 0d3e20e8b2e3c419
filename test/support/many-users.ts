import type { TestApp } from './open-test-app.ts'

/**
 * SQL for both engines that adds users with the e-mails `u1@x.co` and so on. The name of each is N, the last two digits of its number
 * and `nameEnd`, and its times are in one minute of 2026-01-31T12:00Z, 10 to 59 seconds after its beginning.
 */
export function insertManyUsers(count: number, nameEnd = ''): string {
  return `
    INSERT INTO users (name, name_lower, email, created_at, updated_at)
    WITH RECURSIVE serial (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM serial WHERE n < ${count})
    SELECT 'N' || (n % 100) || '${nameEnd}', 'n' || (n % 100) || lower('${nameEnd}'), 'u' || n || '@x.co', time, time
    FROM (SELECT n, '2026-01-31T12:00:' || (10 + n % 50) || '.000Z' AS time FROM serial) AS filled`
}

/** Creates users by requests of a hundred. */
export async function createMany(
  { http }: Pick<TestApp, 'http'>,
  users: readonly object[],
): Promise<void> {
  for (let at = 0; at < users.length; at += 100) {
    await http
      .post('/users')
      .send({ users: users.slice(at, at + 100) })
      .expect(200)
  }
}

/** An end of names with which a list of 12,000 users is more than the service and the system hold for a client that reads nothing. */
export const LONG_END = '€'.repeat(250)

/** How many users there are. */
export async function countUsers({ http }: Pick<TestApp, 'http'>): Promise<number> {
  const { headers } = await http.get('/users?per_page=1&count=true')
  return Number(headers['x-total-count'])
}
