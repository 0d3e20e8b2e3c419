import { errorOf, type Failure, failureOf } from './failures.ts'

/** One end of a channel that carries JSON values between two processes or threads, in order. */
export interface Port {
  send(message: unknown): void
  onMessage(receive: (message: unknown) => void): void
}

/** A kind of call. Both sides know it by its name; questions and answers are JSON values. */
export interface CallKind<Question, Answer> {
  readonly name: string
  /** Only for the type checker. */
  readonly types?: (question: Question) => Answer
}

/** Calls between two processes or threads, in both directions. */
export interface Calls {
  /**
   * Asks the other side. Rejects with what its handler throws, where only a `ServiceError` keeps its class, and with the
   * error of `close`.
   */
  ask<Question, Answer>(kind: CallKind<Question, Answer>, question: Question): Promise<Answer>
  /** Does the same with a question that is made when it is sent, at the end of the turn. */
  askAtSend<Question, Answer>(
    kind: CallKind<Question, Answer>,
    makeQuestion: () => Question,
  ): Promise<Answer>
  /** Says something to the other side and does not wait. Nothing happens once the calls are closed. */
  tell<Question>(kind: CallKind<Question, void>, question: Question): void
  /** Handles all calls of a kind from the other side. */
  handle<Question, Answer>(
    kind: CallKind<Question, Answer>,
    handler: (question: Question) => Answer | Promise<Answer>,
  ): void
  /** Rejects all calls that wait, and later ones. Call it when the other side is gone. */
  close(error: unknown): void
  /** Whether the other side is gone. It may have done what calls that were rejected by `close` asked for. */
  isClosed(): boolean
}

/** An entry of a message. `undefined` becomes `null` in JSON, so absent answers are left out. */
type Entry =
  | readonly ['ask', id: number, name: string, question: unknown]
  | readonly ['tell', name: string, question: unknown]
  | readonly ['answer', id: number, answer?: unknown]
  | readonly ['failure', id: number, failure: Failure]

interface Asked {
  resolve(answer: never): void
  reject(error: unknown): void
}

/** Everything that is asked and answered within one turn of the event loop is sent as one message. */
export function createCalls(port: Port): Calls {
  const asked = new Map<number, Asked>()
  const handlers = new Map<string, (question: never) => unknown>()
  let entries: Entry[] = []
  /** Make entries that are added to the message right before it is sent. */
  const lateEntries: (() => Entry)[] = []
  let isScheduled = false
  let lastId = 0
  let closedWith: { readonly error: unknown } | undefined

  function add(entry: Entry): void {
    if (closedWith !== undefined) return
    entries.push(entry)
    scheduleFlush()
  }

  function scheduleFlush(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(flush)
  }

  function flush(): void {
    isScheduled = false
    if (closedWith !== undefined) return
    for (const makeEntry of lateEntries.splice(0)) entries.push(makeEntry())
    const message = entries
    entries = []
    port.send(message)
  }

  function begin<Answer>(send: (id: number) => void): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (closedWith !== undefined) return reject(closedWith.error)
      const id = ++lastId
      asked.set(id, { resolve, reject })
      send(id)
    })
  }

  function receive(message: unknown): void {
    for (const entry of message as readonly Entry[]) receiveEntry(entry)
  }

  function receiveEntry(entry: Entry): void {
    switch (entry[0]) {
      case 'ask':
        handleAsked(entry[1], entry[2], entry[3])
        break
      case 'tell':
        handlerOf(entry[1])(entry[2] as never)
        break
      case 'answer':
        take(entry[1])?.resolve(entry[2] as never)
        break
      case 'failure':
        take(entry[1])?.reject(errorOf(entry[2]))
        break
    }
  }

  function handleAsked(id: number, name: string, question: unknown): void {
    const succeed = (answer: unknown) =>
      add(answer === undefined ? ['answer', id] : ['answer', id, answer])
    const fail = (error: unknown) => add(['failure', id, failureOf(error)])
    try {
      const answer = handlerOf(name)(question as never)
      if (answer instanceof Promise) answer.then(succeed, fail)
      else succeed(answer)
    } catch (error) {
      fail(error)
    }
  }

  function handlerOf(name: string): (question: never) => unknown {
    const handler = handlers.get(name)
    if (handler === undefined) throw new Error(`no handler for calls of ${name}`)
    return handler
  }

  function take(id: number): Asked | undefined {
    const waiting = asked.get(id)
    asked.delete(id)
    return waiting
  }

  port.onMessage(receive)

  return {
    ask: ({ name }, question) => begin(id => add(['ask', id, name, question])),
    askAtSend: ({ name }, makeQuestion) =>
      begin(id => {
        lateEntries.push(() => ['ask', id, name, makeQuestion()])
        scheduleFlush()
      }),
    tell: ({ name }, question) => add(['tell', name, question]),
    handle: ({ name }, handler) => void handlers.set(name, handler),
    close: error => {
      closedWith ??= { error }
      const waiting = [...asked.values()]
      asked.clear()
      for (const { reject } of waiting) reject(error)
    },
    isClosed: () => closedWith !== undefined,
  }
}
