import type { lookup } from 'node:dns'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { createSender } from '../../src/webhooks/webhook-sender.ts'
import { openReceiver } from '../support/webhook-receiver.ts'

const REQUEST = { body: '{}', headers: {}, timeoutMs: 60_000 }

/** Its time is longer than that of a test. */
const UNHURRIED = { ...REQUEST, timeoutMs: 3_600_000 }

/** Finds these addresses for every name. */
function resolverTo(...addresses: string[]): typeof lookup {
  const resolve = (_name: string, _options: object, found: (error: null, all: object[]) => void) =>
    found(
      null,
      addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 })),
    )
  return resolve as unknown as typeof lookup
}

describe('an address', () => {
  test.each([
    '169.254.169.254',
    '[fe80::1]',
    '[::ffff:169.254.1.1]',
    '0.0.0.0',
    '[::]',
    '224.0.0.1',
  ])('%s is refused', async host => {
    const sender = createSender(`http://${host}:9/`)
    await expect(sender.send(REQUEST)).rejects.toThrow('is an address that webhooks may not have')
  })

  test.each([
    ['169.254.169.254'],
    ['127.0.0.1', 'fe80::1%lo'],
    ['::ffff:169.254.169.254'],
    ['64:ff9b::a9fe:a9fe'],
    ['fd00:ec2::254'],
    ['fd20:ce::254'],
    ['fd00:c1::a9fe:a9fe'],
    ['::'],
    ['ff02::1'],
    ['239.1.2.3'],
  ])('whose name leads to %s is refused after it was resolved', async (...addresses) => {
    const { url, posted } = await openReceiver()
    const { port } = new URL(url)
    const sender = createSender(`http://receiver.example:${port}`, {
      resolve: resolverTo(...addresses),
    })
    await expect(sender.send(REQUEST)).rejects.toThrow('is an address that webhooks may not have')
    expect(posted).toEqual([])
  })

  test('of this machine or of a private network is not', async () => {
    const { url, posted } = await openReceiver()
    const { port } = new URL(url)
    const resolve = resolverTo('127.0.0.1')
    const sender = createSender(`http://receiver.example:${port}`, { resolve })
    expect(await sender.send(REQUEST)).toEqual({ status: 204, retryAfter: undefined })
    expect(posted).toHaveLength(1)
    sender.close()
  })
})

test('a connection is kept from one request to the next, and made anew if it was closed', async () => {
  const ports = new Set<number | undefined>()
  const { url } = await openReceiver(response => {
    ports.add(response.socket?.remotePort)
    response.writeHead(200).end('thanks')
  })
  const sender = createSender(url)
  for (let at = 0; at < 3; at++) expect((await sender.send(REQUEST)).status).toBe(200)
  expect(ports.size).toBe(1)
  sender.close()
  expect((await sender.send(REQUEST)).status).toBe(200)
  expect(ports.size).toBe(2)
  sender.close()
})

test('a receiver that does not answer in time is given up', async () => {
  const { url } = await openReceiver(() => {})
  const sender = createSender(url)
  await expect(sender.send({ ...REQUEST, timeoutMs: 50 })).rejects.toThrow('no answer in 50 ms')
  sender.close()
})

test.each([
  ['slow', (response: ServerResponse) => response.write('more')],
  [
    'huge',
    (response: ServerResponse) => {
      const more = () => {
        while (response.write(Buffer.alloc(65_536)));
      }
      response.on('drain', more)
      more()
    },
  ],
])('an answer counts once its head is there, and a %s body is cut off', async (_, answer) => {
  const closed: Promise<unknown>[] = []
  const { url } = await openReceiver(response => {
    closed.push(once(response, 'close'))
    answer(response.writeHead(200))
  })
  const sender = createSender(url)
  for (let at = 0; at < 2; at++) expect((await sender.send(UNHURRIED)).status).toBe(200)
  await Promise.all(closed)
  expect(closed).toHaveLength(2)
  sender.close()
})

test('a request that waits for the rest of an answer is never sent once its sender is closed', async () => {
  let received = 0
  const { url } = await openReceiver(response => {
    received++
    response.writeHead(200).write('more')
  })
  const sender = createSender(url)
  await sender.send(UNHURRIED)
  const waiting = sender.send(UNHURRIED)
  sender.close()
  await expect(waiting).rejects.toThrow('socket hang up')
  await createSender(url).send(UNHURRIED)
  expect(received).toBe(2)
})

test.each([{}, { Upgrade: 'websocket', Connection: 'Upgrade' }])(
  '101 is an answer, with the headers %j',
  async headers => {
    const { url } = await openReceiver(response => response.writeHead(101, headers).end())
    const sender = createSender(url)
    expect((await sender.send(UNHURRIED)).status).toBe(101)
    sender.close()
  },
)
