import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { inForm } from '../../support/faults.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import { spawnService } from '../../support/spawn-service.ts'

const ROUNDS = inForm({ short: 20, long: 1000 })

/** Of one request to each of two services at the same moment, how many get each status. */
async function openRace() {
  const env = { DATABASE_URL: await copyPostgresTemplate() }
  const cwd = temporaryFolder()
  const services = await Promise.all([1, 2].map(() => spawnService({ cwd, env })))
  return (path: string, request: RequestInit & { readonly body?: string }) =>
    Promise.all(
      // Two to each, because those that meet in one process take another way than those that meet in the database.
      [...services, ...services].map(async ({ url }) => {
        const headers = { 'Content-Type': 'application/json', ...request.headers }
        const answer = await fetch(url + path, { ...request, headers })
        const { id } = (await answer.json()) as { id?: number }
        return { status: answer.status, id, etag: answer.headers.get('etag') ?? '' }
      }),
    )
}

const statusesOf = (answers: readonly { status: number }[]) =>
  answers.map(({ status }) => status).sort()

test('of creates with one e-mail at the same moment on two services, one is 201 and the others are 422', async () => {
  const race = await openRace()
  for (let round = 0; round < ROUNDS; round++) {
    const body = JSON.stringify(newUserBody())
    const answers = await race('/users', { method: 'POST', body })
    expect(statusesOf(answers)).toEqual([201, 422, 422, 422])
  }
})

test('creates with one Idempotency-Key at the same moment on two services create one user', async () => {
  const race = await openRace()
  for (let round = 0; round < ROUNDS; round++) {
    const request = {
      method: 'POST',
      body: JSON.stringify(newUserBody()),
      headers: { 'Idempotency-Key': `key-${round}` },
    }
    const answers = [...(await race('/users', request)), ...(await race('/users', request))]
    // A key in use by a request that still runs is 409.
    expect(statusesOf(answers).filter(status => ![201, 409].includes(status))).toEqual([])
    const created = answers.filter(({ status }) => status === 201)
    expect(new Set(created.map(({ id }) => id)).size).toBe(1)
  }
})

test('of changes with one If-Match at the same moment on two services, one is 200 and the others are 412', async () => {
  const race = await openRace()
  const answers = await race('/users', { method: 'POST', body: JSON.stringify(newUserBody()) })
  const path = `/users/${answers.find(({ status }) => status === 201)?.id}`
  const [first] = await race(path, { method: 'GET' })
  let version = first?.etag ?? ''
  for (let round = 0; round < ROUNDS; round++) {
    const answers = await race(path, {
      method: 'PUT',
      body: JSON.stringify({ user: { name: `Round ${round}` } }),
      headers: { 'If-Match': version },
    })
    expect(statusesOf(answers)).toEqual([200, 412, 412, 412])
    version = answers.find(({ status }) => status === 200)?.etag ?? ''
  }
})
