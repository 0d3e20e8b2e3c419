import { MessageChannel } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { ServiceError } from '../../src/errors.ts'
import { type CallKind, createCalls, type Port } from '../../src/workers/calls.ts'
import {
  createForwardedCalls,
  FORWARD,
  handleForwarded,
  passOnForwarded,
} from '../../src/workers/forwarded-calls.ts'

const DOUBLE: CallKind<number, number> = { name: 'double' }
const FIND: CallKind<number, string | undefined> = { name: 'find' }

/** Both ends of a channel that carries JSON, and what was sent through it. */
function channel() {
  const { port1, port2 } = new MessageChannel()
  onTestFinished(() => port1.close())
  const sent: unknown[] = []
  const portOf = (port: typeof port1): Port => ({
    send: message => {
      sent.push(message)
      port.postMessage(JSON.stringify(message))
    },
    onMessage: receive => void port.on('message', text => receive(JSON.parse(text))),
  })
  return { near: createCalls(portOf(port1)), far: createCalls(portOf(port2)), sent }
}

/** One side that asks, one in between, and one that answers. */
function chain() {
  const first = channel()
  const second = channel()
  passOnForwarded(first.far, second.near)
  const asking = createForwardedCalls(first.near)
  return { asking, first, second, answering: handleForwarded(second.far) }
}

test('calls reach the third side, and their answers come back', async () => {
  const { asking, answering } = chain()
  answering.handle(DOUBLE, async number => 2 * number)
  answering.handle(FIND, id => (id === 1 ? 'Ann' : undefined))
  const answers = [asking.ask(DOUBLE, 21), asking.ask(FIND, 1), asking.ask(FIND, 2)] as const
  expect(await Promise.all(answers)).toEqual([42, 'Ann', undefined])
})

test('the calls of one turn are one text, and those of the next one another', async () => {
  const { asking, answering, first, second } = chain()
  answering.handle(DOUBLE, number => 2 * number)
  const one = [1, 2, 3].map(number => asking.ask(DOUBLE, number))
  expect(await Promise.all(one)).toEqual([2, 4, 6])
  expect(await asking.ask(DOUBLE, 4)).toBe(8)
  const text = JSON.stringify([1, 2, 3].map(number => ['double', number]))
  expect(first.sent[0]).toEqual([['ask', 1, FORWARD.name, text]])
  // A question and its answer for each turn, on each of the two ways.
  expect([first.sent.length, second.sent.length]).toEqual([4, 4])
})

test('a failure is that of its own call only', async () => {
  const { asking, answering } = chain()
  answering.handle(DOUBLE, number => {
    if (number === 2) throw new ServiceError('email_taken')
    return 2 * number
  })
  const settled = await Promise.allSettled([1, 2, 3].map(number => asking.ask(DOUBLE, number)))
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(settled[1]).toMatchObject({ reason: { code: 'email_taken' } })
})

test('all calls of a text fail if one of them is unknown to the third side', async () => {
  const { asking, answering } = chain()
  answering.handle(DOUBLE, number => 2 * number)
  const calls = [asking.ask(DOUBLE, 1), asking.ask(FIND, 1)]
  for (const call of calls) await expect(call).rejects.toThrow('no handler for calls of find')
})

test('calls fail once the side in between is gone, also later ones', async () => {
  const { asking, answering, first } = chain()
  answering.handle(DOUBLE, () => new Promise<number>(() => {}))
  const waiting = asking.ask(DOUBLE, 1)
  await new Promise(setImmediate)
  first.near.close(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
  await expect(asking.ask(DOUBLE, 2)).rejects.toThrow('gone')
  await expect(asking.ask(DOUBLE, 3)).rejects.toThrow('gone')
})
