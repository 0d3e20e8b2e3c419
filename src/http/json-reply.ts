import type { Reply } from './reply.ts'

/** A response with a JSON value about the service, which no cache may keep. */
export function jsonReply(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): Reply {
  return {
    status,
    headers: { 'Cache-Control': 'no-store', ...headers },
    body: JSON.stringify(value),
  }
}
