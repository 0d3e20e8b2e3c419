// Checks, before a server is measured, that it does the work.
import { deepStrictEqual } from 'node:assert/strict'
import { canServe, WORKLOADS } from './load.mjs'

/** Rejects unless the server lists, reads, creates, changes and refuses like all the others. */
export async function verify(server, { url, headers }) {
  const ask = async (path, method, user) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...headers, ...(user && { 'Content-Type': 'application/json' }) },
      ...(user && { body: JSON.stringify({ user }) }),
    })
    return { status: response.status, body: await response.json() }
  }
  const list = await ask('/users', 'GET')
  deepStrictEqual([list.status, list.body.length], [200, 100])
  const one = await ask('/users/7', 'GET')
  deepStrictEqual(one, { status: 200, body: list.body[6] })
  deepStrictEqual(Object.keys(one.body), ['id', 'name', 'email', 'created_at', 'updated_at'])
  const created = await ask('/users', 'POST', { name: 'Ann', email: 'ann@example.com' })
  const { id, name, email } = created.body
  deepStrictEqual([created.status, name, email], [201, 'Ann', 'ann@example.com'])
  const renamed = await ask(`/users/${id}`, 'PUT', { name: 'Bob' })
  deepStrictEqual([renamed.status, renamed.body.name], [200, 'Bob'])
  deepStrictEqual((await ask(`/users/${id}`, 'GET')).body, renamed.body)
  for (const [workload, { path, status }] of Object.entries(WORKLOADS)) {
    if (status === undefined || !canServe(server, workload)) continue
    // Twice, because a throttle lets the first one pass.
    await ask(path, 'GET')
    deepStrictEqual((await ask(path, 'GET')).status, status, workload)
  }
}
