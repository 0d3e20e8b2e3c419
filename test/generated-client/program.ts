import createClient from 'openapi-fetch'
import type { components, paths } from './interface.ts'

type User = components['schemas']['User']
type ServiceError = components['schemas']['Error']
type Problem = components['schemas']['Problem']

/** What the program of a client finds out about the service; it throws for what a client could not go on with. */
export async function useService(baseUrl: string): Promise<Record<string, unknown>> {
  // Without the forms that are streams. Lists in parameters have commas.
  const client = createClient<paths, 'application/json' | 'application/problem+json'>({
    baseUrl,
    querySerializer: { array: { style: 'form', explode: false } },
  })

  const created = await client.POST('/users', {
    body: { user: { name: 'Ann', email: 'ann@example.com', password: 'correct horse' } },
  })
  const ann: User = single(created.data)
  const firstTag: string = present(created.response.headers.get('ETag'))

  const key = { header: { 'Idempotency-Key': '0b5d6a1e-6f2c-4c1e-9d3b-8a7f2e4c5d60' } }
  const body = { user: { name: 'Bea', email: 'bea@example.com' } }
  const bea = single((await client.POST('/users', { params: key, body })).data)
  const again = await client.POST('/users', { params: key, body })
  const many = await client.POST('/users', { body: { users: [body.user, body.user] } })

  const listed = await client.GET('/users', {
    params: {
      query: {
        id: [1, 2],
        sort: '-name',
        per_page: 1,
        count: true,
        created_after: '2026-01-31T12:00:00Z',
      },
    },
  })
  const list = present(listed.data)
  const paged = await client.GET('/users', { params: { query: { envelope: true, count: true } } })
  const page = present(paged.data)

  const login = { email: 'ann@example.com', password: 'correct horse' }
  const verified = await client.POST('/password-verifications', { body: { user: login } })
  const wrong = await client.POST('/password-verifications', {
    body: { user: { ...login, password: 'correct horsf' } },
  })
  const wrongLogin = present(wrong.error)

  const path = { id: ann.id }
  const read = await client.GET('/users/{id}', { params: { path } })
  const known = await client.GET('/users/{id}', {
    params: { path, header: { 'If-None-Match': present(read.response.headers.get('ETag')) } },
  })

  const changed = await client.PUT('/users/{id}', {
    params: { path, header: { 'If-Match': firstTag } },
    body: { user: { name: 'Anna', password: null } },
  })
  const lost = await client.PATCH('/users/{id}', {
    params: { path, header: { 'If-Match': firstTag } },
    body: { user: { name: 'Annie' } },
  })
  const lostUpdate: ServiceError | Problem = present(lost.error)

  const refused = await client.POST('/users', { body: { user: { name: '', email: 'nobody' } } })
  const refusal = present(refused.error)
  const refusedAsProblem = await client.POST('/users', {
    body: { user: { name: '', email: 'nobody' } },
    headers: { Accept: 'application/problem+json' },
  })
  const problem = present(refusedAsProblem.error)

  const removed = await client.DELETE('/users/{id}', { params: { path } })
  const gone = await client.DELETE('/users/{id}', { params: { path } })
  const ready = present((await client.GET('/readyz')).data)

  return {
    created: [created.response.status, ann.name, 'password' in ann],
    repeated: [
      again.response.status,
      single(again.data).id === bea.id,
      again.response.headers.get('Idempotency-Replayed'),
    ],
    many:
      many.data && 'data' in many.data
        ? many.data.data.map(entry => (entry.status === 201 ? entry.user.name : entry.errors))
        : 'one user',
    listed: Array.isArray(list) ? list.map(user => user.name) : 'no array',
    total: listed.response.headers.get('X-Total-Count'),
    page: Array.isArray(page)
      ? 'an array'
      : [page.data.map(user => user.name), page.page, page.has_more, page.total_count],
    known: [known.response.status, known.data],
    verified: [verified.response.status, present(verified.data).id === ann.id],
    wrongLogin: [wrong.response.status, 'message' in wrongLogin && wrongLogin.message],
    changed: [changed.data?.name, (changed.data?.updated_at ?? '') > ann.updated_at],
    lostUpdate: [lost.response.status, 'message' in lostUpdate && lostUpdate.message],
    refusal: 'message' in refusal && [refusal.resource, refusal.status, refusal.errors],
    problem: 'title' in problem && [problem.title, problem.errors?.map(({ pointer }) => pointer)],
    removed: [removed.response.status, gone.response.status, gone.error && 'code' in gone.error],
    ready: ready.status,
  }
}

function single(created: User | components['schemas']['CreatedUsers'] | undefined): User {
  const user = present(created)
  if ('data' in user) throw new Error('the service created many')
  return user
}

function present<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('the service did not answer that')
  return value
}
