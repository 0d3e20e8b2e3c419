import createClient from 'openapi-fetch'
import type { components, paths } from './interface.ts'

/** Each line that ends with `mistake` is one that no client may be compiled with; the others are right. */
export async function makeMistakes(baseUrl: string): Promise<void> {
  const client = createClient<paths>({ baseUrl })
  const user = { name: 'Ann', email: 'ann@example.com' }
  await client.POST('/users', { body: { user } })
  await client.POST('/users', { body: user }) // mistake
  await client.POST('/users', { body: { user: { name: 'Ann' } } }) // mistake
  await client.POST('/users', { body: { user: { ...user, password: 12345678 } } }) // mistake
  await client.POST('/users') // mistake
  await client.POST('/user', { body: { user } }) // mistake
  await client.PUT('/users/{id}', { params: { path: { id: 1 } }, body: { user: {} } })
  await client.PUT('/users/{id}', { params: {}, body: { user: {} } }) // mistake
  await client.PUT('/users', { body: { user } }) // mistake
  await client.HEAD('/users', {}) // mistake
  await client.OPTIONS('/users', {}) // mistake
  await client.GET('/users', { params: { query: { sort: '-id' } } })
  await client.GET('/users', { params: { query: { sort: 'password' } } }) // mistake
  await client.GET('/users', { params: { query: { per_page: 'all' } } }) // mistake
  await client.GET('/users', { params: { query: { limit: 10 } } }) // mistake
  const { data, error } = await client.GET('/users/{id}', { params: { path: { id: 1 } } })
  if (data !== undefined) console.log(data.name)
  if (data !== undefined) console.log(data.password) // mistake
  if (error !== undefined && 'code' in error) console.log(error.code.toFixed())
  if (error !== undefined) console.log(error.nothing) // mistake
  const found: components['schemas']['User'] | undefined = data
  console.log(found?.id.toFixed())
  console.log(found?.id.trim()) // mistake
}
