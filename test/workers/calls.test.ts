import { MessageChannel } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { ServiceError } from '../../src/errors.ts'
import { type CallKind, type Calls, createCalls, type Port } from '../../src/workers/calls.ts'

const DOUBLE: CallKind<number, number> = { name: 'double' }
const NOTE: CallKind<string, void> = { name: 'note' }

interface Pair {
  readonly one: Calls
  readonly other: Calls
  /** The messages that `one` has sent. */
  readonly sent: unknown[]
}

/** Both ends of a channel that carries JSON, as between two processes. */
function connected(): Pair {
  const { port1, port2 } = new MessageChannel()
  onTestFinished(() => port1.close())
  const sent: unknown[] = []
  const portOf = (port: typeof port1, keep: (message: unknown) => void): Port => ({
    send: message => {
      keep(message)
      port.postMessage(JSON.stringify(message))
    },
    onMessage: receive => void port.on('message', text => receive(JSON.parse(text))),
  })
  const one = createCalls(portOf(port1, message => sent.push(message)))
  return { one, other: createCalls(portOf(port2, () => {})), sent }
}

test('ask resolves to what the handler of the other side returns, at once or later', async () => {
  const { one, other } = connected()
  other.handle(DOUBLE, number => 2 * number)
  expect(await one.ask(DOUBLE, 21)).toBe(42)
  other.handle(DOUBLE, async number => 2 * number)
  expect(await one.ask(DOUBLE, 4)).toBe(8)
})

test('both sides can ask', async () => {
  const { one, other } = connected()
  one.handle(DOUBLE, number => number + number)
  expect(await other.ask(DOUBLE, 3)).toBe(6)
})

test('all calls of a turn go in one message, and their answers reach their callers', async () => {
  const { one, other, sent } = connected()
  other.handle(DOUBLE, async number => {
    await new Promise(resolve => setTimeout(resolve, 10 - number))
    return 2 * number
  })
  const answers = await Promise.all([1, 2, 3, 4].map(number => one.ask(DOUBLE, number)))
  expect(answers).toEqual([2, 4, 6, 8])
  expect(sent).toHaveLength(1)
})

test('an absent answer stays absent', async () => {
  const { one, other } = connected()
  const find: CallKind<number, string | undefined> = { name: 'find' }
  other.handle(find, () => undefined)
  expect(await one.ask(find, 1)).toBeUndefined()
})

test('tell does not wait, and is handled in order with what is asked', async () => {
  const { one, other } = connected()
  const seen: unknown[] = []
  other.handle(NOTE, text => void seen.push(text))
  other.handle(DOUBLE, number => seen.push(number))
  one.tell(NOTE, 'a')
  const answer = one.ask(DOUBLE, 7)
  one.tell(NOTE, 'b')
  await answer
  expect(seen).toEqual(['a', 7, 'b'])
})

test('a ServiceError arrives with its code and cause, any other error as it was thrown', async () => {
  const { one, other } = connected()
  const cause = Object.assign(new Error('disk is full'), { code: 'SQLITE_FULL' })
  other.handle(DOUBLE, () => {
    throw new ServiceError('storage_unavailable', { cause })
  })
  const error = await one.ask(DOUBLE, 1).catch(error => error)
  expect(error).toBeInstanceOf(ServiceError)
  expect(error).toMatchObject({
    code: 'storage_unavailable',
    cause: { message: 'disk is full', code: 'SQLITE_FULL' },
  })
  other.handle(DOUBLE, async () => {
    throw new TypeError('not a number')
  })
  const bug = await one.ask(DOUBLE, 1).catch(error => error)
  expect(bug).toMatchObject({ name: 'TypeError', message: 'not a number' })
  expect(bug.stack).toContain('calls.test.ts')
})

test('an error keeps its own cause, and a ServiceError its details', async () => {
  const { one, other } = connected()
  const cause = new Error('commit failed', { cause: new RangeError('no space') })
  other.handle(DOUBLE, () => {
    throw new ServiceError('storage_unavailable', { cause, status: 507, message: 'full' })
  })
  const error = await one.ask(DOUBLE, 1).catch(error => error)
  expect(error).toMatchObject({ code: 'storage_unavailable', details: { status: 507 } })
  expect(error.cause).toMatchObject({ message: 'commit failed' })
  expect(error.cause.cause).toMatchObject({ name: 'RangeError', message: 'no space' })
})

test('an error that is its own cause can be sent', async () => {
  const { one, other } = connected()
  other.handle(DOUBLE, () => {
    const error = new Error('in a circle')
    throw Object.assign(error, { cause: error })
  })
  await expect(one.ask(DOUBLE, 1)).rejects.toThrow('in a circle')
})

test('a call that the other side does not know fails', async () => {
  const { one } = connected()
  await expect(one.ask(DOUBLE, 1)).rejects.toThrow('no handler for calls of double')
})

test('close rejects what waits and what is asked later, and nothing is sent any more', async () => {
  const { one, other, sent } = connected()
  other.handle(DOUBLE, () => new Promise<number>(() => {}))
  const waiting = one.ask(DOUBLE, 1)
  await new Promise(setImmediate)
  expect(one.isClosed()).toBe(false)
  one.close(new Error('the other process is gone'))
  expect(one.isClosed()).toBe(true)
  await expect(waiting).rejects.toThrow('the other process is gone')
  await expect(one.ask(DOUBLE, 2)).rejects.toThrow('the other process is gone')
  one.tell(NOTE, 'a')
  await new Promise(setImmediate)
  expect(sent).toHaveLength(1)
})
