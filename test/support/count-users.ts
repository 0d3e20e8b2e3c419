import type { TestApp } from './open-test-app.ts'

/** How many users there are. */
export async function countUsers({ http }: Pick<TestApp, 'http'>): Promise<number> {
  const { headers } = await http.get('/users?per_page=1&count=true')
  return Number(headers['x-total-count'])
}
