import { apply } from '../faults/followers.ts'
import { isSignedWith, openReceiver } from '../support/webhook-receiver.ts'

/** How many of a hundred messages it refuses at first. */
const REFUSED = 2

/** Keeps a copy of the users by the messages of a webhook, as a follower does by the feed. */
export async function openCopyingReceiver() {
  const copy = new Map<number, unknown>()
  const mistakes: string[] = []
  let secret: string | undefined
  let restarts = 0
  const { url, posted } = await openReceiver((response, message) => {
    // They would fill the memory.
    posted.length = 0
    const { type, data } = message.body
    if (secret !== undefined && !isSignedWith(secret, message)) mistakes.push(`a webhook: ${type}`)
    if (Math.random() * 100 < REFUSED) {
      response.writeHead(503, { 'Retry-After': '1' }).end()
      return
    }
    if (type === 'users.reset') {
      copy.clear()
      restarts++
    }
    for (const entry of data) apply(copy, entry)
    response.writeHead(204).end()
  })
  return {
    url,
    copy: copy as ReadonlyMap<number, unknown>,
    mistakes,
    /** How often it had to begin again. */
    restarts: () => restarts,
    /** From now on messages must be signed with this. */
    expectSecret: (value: string) => {
      secret = value
    },
    stop: async (): Promise<void> => {},
  }
}
