import { describe, expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openManagedApp } from '../../support/management-requests.ts'
import { problemsOfStart } from '../../support/open-test-app.ts'
import { startPgBouncer } from '../../support/pgbouncer.ts'
import { asServingRole, tasksOn } from '../../support/postgres-connections.ts'
import { newPostgresDatabase, queryPostgres } from '../../support/postgres-databases.ts'
import { canUsePgBouncer } from '../../support/programs.ts'
import { untilPasses } from '../../support/until.ts'

const WHY = 'row-level security of users hides rows from this role: disable it'

type WayTo = (url: string) => string | Promise<string>

const WAYS: [string, WayTo][] = [['a server', url => url]]
if (canUsePgBouncer) WAYS.push(['PgBouncer', startPgBouncer])

describe.each(WAYS)('behind %s', (_, wayTo) => {
  /** A service of a role that does not own the tables, and has all rows. */
  async function openFiltered() {
    const owners = await newPostgresDatabase()
    const DATABASE_URL = await wayTo(await asServingRole(owners))
    await tasksOn(owners).migrate()
    const secure = (action: string) =>
      queryPostgres(
        owners,
        `ALTER TABLE users ${action} ROW LEVEL SECURITY; UPDATE users SET name = name || 'x'`,
      )
    return { DATABASE_URL, secure }
  }

  test('a start is refused where row-level security hides users', async () => {
    const { DATABASE_URL, secure } = await openFiltered()
    await secure('ENABLE')
    const problems = await problemsOfStart({ env: { DATABASE_URL } })
    expect(problems).toEqual([expect.stringContaining(WHY)])
  })

  test('GET /readyz is 503 with a line that names it once it hides users, who are not told as deleted', async () => {
    const { DATABASE_URL, secure } = await openFiltered()
    const { http, logLines } = await openManagedApp({ env: { DATABASE_URL } })
    /** Not before the writes of other databases of the server have ended. */
    const untilChanged = (query = '') =>
      untilPasses(async () => {
        const { body } = await http.get(`/users/changes${query}`).expect(200)
        expect(body.data).toMatchObject([{ id: 1, user: { id: 1 } }])
        return body.next
      })
    await http.post('/users').send(newUserBody()).expect(201)
    const next = await untilChanged()
    await secure('ENABLE')
    for (let asked = 0; asked < 2; asked++) await http.get('/readyz').expect(503)
    for (const query of ['', `?after=${next}`]) {
      expect((await http.get(`/users/changes${query}`)).status).toBeGreaterThanOrEqual(500)
    }
    const lines = logLines.filter(({ msg }) => msg === 'row-level security hides rows')
    expect(lines).toMatchObject([{ err: { message: expect.stringContaining(WHY) } }])
    await secure('DISABLE')
    await http.get('/readyz').expect(200)
    expect((await http.get('/users').expect(200)).body).toHaveLength(1)
    await untilChanged(`?after=${next}`)
  })
})

test('hidden users are no empty list and no deletions, but 503 with a line that names the cause', async () => {
  const owners = await newPostgresDatabase()
  const DATABASE_URL = await asServingRole(owners)
  await tasksOn(owners).migrate()
  const { http, logLines } = await openManagedApp({ env: { DATABASE_URL } })
  await http.post('/users').send(newUserBody()).expect(201)
  await queryPostgres(owners, 'ALTER TABLE users ENABLE ROW LEVEL SECURITY')
  for (const path of ['/users', '/users?page=2000', '/users/1', '/users/changes']) {
    const { body } = await http.get(path).expect(503)
    expect(body.reason).toBe('storage_unavailable')
  }
  await http.put('/users/1').send(newUserBody()).expect(503)
  const lines = logLines.filter(({ msg }) => msg === 'database unavailable')
  expect(lines).toHaveLength(5)
  expect(JSON.stringify(lines[0])).toContain('row-level security policy for table')
})
