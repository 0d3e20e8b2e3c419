import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'

const KILLS = 6
const CLIENTS = 16
const MAX_LIFE_MS = 400

/** What a client may find of a user of its own: the state that was acknowledged, and that of a write on its way. */
interface Known {
  id: number | undefined
  readonly email: string
  /** Names, or `undefined` for no user: the last is the newest. */
  states: (string | undefined)[]
}

/** Creates, renames and deletes users of its own, one write after another, until the service is gone. */
async function writeUntilKilled({ url }: SpawnedService, client: string, known: Known[]) {
  for (let serial = 0; ; serial++) {
    const user = choose(known) ?? addUser(known, `${client}.${serial}@example.com`)
    const name = Math.random() < 0.2 ? undefined : `Name ${client} ${serial}`
    const write = writeOf(user, name)
    user.states.push(write.state)
    try {
      const response = await fetch(`${url}${write.path}`, write)
      const body = await response.text()
      expect(response.status).toBe(write.status)
      if (write.method === 'POST') user.id = JSON.parse(body).id
      user.states = [write.state]
    } catch (error) {
      if (error instanceof TypeError) return
      throw error
    }
  }
}

/** Sometimes one of those that are there, otherwise none. */
function choose(known: readonly Known[]): Known | undefined {
  const living = known.filter(({ id, states }) => id !== undefined && states[0] !== undefined)
  return Math.random() < 0.5 ? living[Math.floor(Math.random() * living.length)] : undefined
}

function addUser(known: Known[], email: string): Known {
  const user: Known = { id: undefined, email, states: [undefined] }
  known.push(user)
  return user
}

function writeOf({ id, email }: Known, name = 'Name') {
  const headers = { 'Content-Type': 'application/json' }
  if (id === undefined) {
    const body = JSON.stringify({ user: { name, email } })
    return { method: 'POST', path: '/users', headers, body, status: 201, state: name }
  }
  const path = `/users/${id}`
  if (name === 'Name') return { method: 'DELETE', path, status: 204, state: undefined }
  const body = JSON.stringify({ user: { name } })
  return { method: 'PUT', path, headers, body, status: 200, state: name }
}

test('kill -9 at random moments under load loses no write that was acknowledged', async () => {
  const cwd = temporaryFolder()
  const known: Known[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    const service = await spawnService({ cwd })
    const own = Array.from({ length: CLIENTS }, (): Known[] => [])
    const clients = own.map((users, client) =>
      writeUntilKilled(service, `${kill}.${client}`, users),
    )
    await sleep(50 + Math.random() * MAX_LIFE_MS)
    service.process.kill('SIGKILL')
    await Promise.all(clients)
    known.push(...own.flat())
  }
  const database = new Database(join(cwd, 'data', 'users.db'))
  const rows = database
    .prepare<[], { email: string; name: string }>('SELECT email, name FROM users')
    .all()
  const found = new Map(rows.map(({ email, name }) => [email, name]))
  const lost = known.filter(({ email, states }) => !states.includes(found.get(email)))
  expect(lost).toEqual([])
  expect(known.filter(({ states }) => states.length === 1).length).toBeGreaterThan(KILLS * CLIENTS)
  const emails = new Set(known.map(({ email }) => email))
  expect(rows.filter(({ email }) => !emails.has(email))).toEqual([])
  const count = database.prepare('SELECT user_count FROM users_summary').pluck().get()
  expect(count).toBe(rows.length)
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
  database.close()
})
