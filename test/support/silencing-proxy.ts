import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { listen } from './listen.ts'

/**
 * A way to a database on which single connections can go silent: both ends stay open, and nothing passes any more. New ones can
 * be slow, or refused. It ends with the test.
 */
export async function startSilencingProxy(databaseUrl: string) {
  const { hostname, port } = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const wanted = new Map<string, number>()
  let silenced = 0
  let accepted = 0
  let openAfterMs = 0

  function isSilencedBy(chunk: Buffer): boolean {
    for (const [text, count] of wanted) {
      if (count === 0 || !chunk.includes(text)) continue
      wanted.set(text, count - 1)
      silenced++
      return true
    }
    return false
  }

  const server = createServer(client => {
    const upstream = connect(Number(port), hostname)
    let isSilent = false
    accepted++
    if (openAfterMs === Number.POSITIVE_INFINITY) client.destroy()
    else if (openAfterMs > 0) {
      client.pause()
      setTimeout(() => client.resume(), openAfterMs)
    }
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}))
    client.on('data', chunk => {
      isSilent ||= isSilencedBy(chunk)
      if (!isSilent) upstream.write(chunk)
    })
    upstream.on('data', chunk => {
      if (!isSilent) client.write(chunk)
    })
    client.on('close', () => isSilent || upstream.destroy())
    upstream.on('close', () => isSilent || client.destroy())
  })
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${await listen(server)}`
  return {
    /** Of the database, through the proxy. */
    url: url.href,
    /** From now on each of the next `count` connections that send this text goes silent with it. */
    silence: (text: string, count = 1) => {
      wanted.set(text, count)
    },
    /** New connections wait so long until what they send passes; `Infinity` refuses them. */
    openAfter: (ms: number) => {
      openAfterMs = ms
    },
    /** How many connections were made through it. */
    accepted: () => accepted,
    /** How many connections have gone silent. */
    silenced: () => silenced,
  }
}
