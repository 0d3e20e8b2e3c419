import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'

/** Linux's tables of TCP sockets, one row each: https://docs.kernel.org/networking/proc_net_tcp.html */
const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

/** Hexadecimal: the local port, the remote port, and how many bytes the other end has not acknowledged. */
const ROW = /^ *\d+: \w+:(\w{4}) \w+:(\w{4}) \w\w (\w{8}):/gm

/** Bytes by `portsOf(socket)`. Sockets that the system does not list are missing; only Linux lists any. */
export type Unacknowledged = ReadonlyMap<number, number>

/** Reads how many bytes of each connection its client has not acknowledged. */
export async function readUnacknowledged(): Promise<Unacknowledged> {
  const bytes = new Map<number, number>()
  for (const table of TABLES) {
    const text = await readFile(table, 'latin1').catch(() => '')
    for (const [, local = '', remote = '', queued = ''] of text.matchAll(ROW)) {
      const ports = Number.parseInt(local + remote, 16)
      // Clients at different addresses may share a port: their sum changes when one of them makes progress.
      bytes.set(ports, (bytes.get(ports) ?? 0) + Number.parseInt(queued, 16))
    }
  }
  return bytes
}

/** Both ports as one number: the key of `Unacknowledged`. */
export function portsOf({ localPort = 0, remotePort = 0 }: Socket): number {
  return localPort * 0x10000 + remotePort
}
