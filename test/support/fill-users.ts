import { join } from 'node:path'
import { newUserBody } from './builders.ts'
import { fillWithUsers } from './fill-with-users.ts'

/** Creates a user over HTTP. */
export function createUser(url: string, fields: Record<string, unknown> = {}): Promise<Response> {
  return fetch(`${url}/users`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(newUserBody(fields)),
  })
}

/** Adds users to the database in the folder of a service that is not running. */
export function fillDatabase(folder: string, count: number, name?: string): Promise<void> {
  return fillWithUsers(join(folder, 'data', 'users.db'), count, name)
}
