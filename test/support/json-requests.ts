import { expect } from 'vitest'
import type { SpawnedService } from './spawn-service.ts'

export interface JsonAnswer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: any response; the test checks it.
  readonly body: any
}

/** One request such as `PUT /users/1`, with a body that is sent as JSON. */
export async function ask(
  { url }: Pick<SpawnedService, 'url'>,
  line: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<JsonAnswer> {
  const [method = '', path = ''] = line.split(' ')
  const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { ...type, ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, body: text && JSON.parse(text) }
}

/** All users by id, each as a line of the whole list. */
export async function readAllUsers(url: string, headers: Readonly<Record<string, string>> = {}) {
  const accept = { ...headers, Accept: 'application/x-ndjson' }
  const text = await (await fetch(`${url}/users`, { headers: accept })).text()
  return new Map((text.match(/.+/g) ?? []).map(line => [JSON.parse(line).id as number, line]))
}

/** Expects a 503 with Retry-After. */
export function expectUnavailable(answer: JsonAnswer): void {
  expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '1'])
}
