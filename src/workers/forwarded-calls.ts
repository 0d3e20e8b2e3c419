import type { CallKind, Calls } from './calls.ts'
import { errorOf, type Failure, failureOf } from './failures.ts'

/**
 * Calls to a third process or thread, by way of the one in between. Those of one turn are one JSON text, which the one in
 * between passes on unread: to read and write each of them again would take as long as their work.
 */
export const FORWARD: CallKind<string, string> = { name: 'forward' }

type Forwarded = readonly [name: string, question: unknown]

/** `undefined` is left out of JSON objects, so an absent answer stays absent. */
type Outcome = { readonly answer?: unknown } | { readonly failure: Failure }

interface Pending {
  readonly forwarded: Forwarded
  readonly resolve: (answer: never) => void
  readonly reject: (error: unknown) => void
}

/** Asks the third side. */
export function createForwardedCalls(between: Calls): Pick<Calls, 'ask'> {
  let open: Pending[] | undefined

  async function send(batch: readonly Pending[]): Promise<void> {
    try {
      const text = await between.askAtSend(FORWARD, () => {
        // What is asked from now on goes into the next message.
        open = undefined
        return JSON.stringify(batch.map(({ forwarded }) => forwarded))
      })
      const outcomes = JSON.parse(text) as readonly Outcome[]
      for (const [index, outcome] of outcomes.entries()) settle(batch[index] as Pending, outcome)
    } catch (error) {
      open = undefined
      for (const { reject } of batch) reject(error)
    }
  }

  return {
    ask: ({ name }, question) =>
      new Promise((resolve, reject) => {
        const pending: Pending = { forwarded: [name, question], resolve, reject }
        if (open !== undefined) {
          open.push(pending)
          return
        }
        open = [pending]
        void send(open)
      }),
  }
}

function settle({ resolve, reject }: Pending, outcome: Outcome): void {
  if ('failure' in outcome) reject(errorOf(outcome.failure))
  else resolve(outcome.answer as never)
}

/** Passes the calls of one side on to the other, unread. */
export function passOnForwarded(from: Calls, to: Calls): void {
  from.handle(FORWARD, text => to.ask(FORWARD, text))
}

/** Handles forwarded calls. The answers to those of one message are sent when all of them are there. */
export function handleForwarded(calls: Calls): Pick<Calls, 'handle'> {
  const handlers = new Map<string, (question: never) => unknown>()

  async function answer([name, question]: Forwarded): Promise<Outcome> {
    const handler = handlers.get(name)
    if (handler === undefined) throw new Error(`no handler for calls of ${name}`)
    try {
      return { answer: await handler(question as never) }
    } catch (error) {
      return { failure: failureOf(error) }
    }
  }

  calls.handle(FORWARD, async text => {
    const forwarded = JSON.parse(text) as readonly Forwarded[]
    return JSON.stringify(await Promise.all(forwarded.map(answer)))
  })
  return { handle: ({ name }, handler) => void handlers.set(name, handler) }
}
