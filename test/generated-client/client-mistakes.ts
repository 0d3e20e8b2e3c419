import { createClient, UserRecordsError } from './create-client.ts'

/** Each line that ends with `mistake` is one that the types of the client refuse; the others are right. */
export async function makeMistakes(): Promise<void> {
  const users = createClient({ url: new URL('http://127.0.0.1:3000'), retries: 0 })
  createClient({}) // mistake
  createClient({ url: 'http://127.0.0.1:3000', timeout: 10 }) // mistake
  const user = { name: 'Ann', email: 'ann@example.com' }
  const ann = await users.create({ ...user, password: null })
  await users.create({ name: 'Ann' }) // mistake
  await users.create({ user }) // mistake
  await users.create(user, { ifMatch: '"v"' }) // mistake
  await users.create(user, { signal: AbortSignal.timeout(10), idempotencyKey: 'k' })
  console.log(ann.password) // mistake
  ann.name = 'Anna' // mistake
  const found = await users.read(ann.id)
  console.log(found.name) // mistake
  console.log(found?.name)
  await users.read('1') // mistake
  await users.update(1, { name: 'Anna' }, { ifMatch: await users.version(1) })
  await users.update(1, { id: 2 }) // mistake
  await users.update({ name: 'Anna' }) // mistake
  for (const entry of await users.createMany([user])) {
    if (entry.status === 201) console.log(entry.user.name)
    if (entry.status === 422) console.log(entry.errors.email?.[0])
    console.log(entry.user) // mistake
  }
  await users.createMany(user) // mistake
  for await (const { name } of users.list({ q: 'ann', sort: '-created_at', id: [1, 2] }))
    name.trim()
  for (const { name } of users.list()) name.trim() // mistake
  users.list({ sort: 'password' }) // mistake
  users.list({ page: 2 }) // mistake
  users.page({ per_page: '10' }) // mistake
  const { data, next, total } = await users.page({ page: 2 })
  console.log(data.length, next?.trim(), total?.toFixed())
  await users.verify({ email: user.email, password: 'correct horse' })
  await users.verify({ id: 1, password: 'correct horse' })
  await users.verify({ id: 1, email: user.email, password: 'correct horse' }) // mistake
  await users.verify({ email: user.email }) // mistake
  for await (const changes of users.changes({ after: next })) {
    for (const change of changes.data) {
      if (change.user === null) console.log(change.deleted_at.trim())
      else console.log(change.user.name, change.deleted_at) // mistake
    }
    changes.data.push() // mistake
  }
  const error = new UserRecordsError('message', {})
  if (error.reason === 'email_taken' || error.reason === 'unreachable') console.log(error.status)
  if (error.reason === 'taken') console.log(error.status) // mistake
}
