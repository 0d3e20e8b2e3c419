import type { Request, Response } from 'express'

const HEAD_END = '\r\n\r\n'

/** The part of Node's parser that a server may ask while a request begins: the bytes that it reads. */
interface Parser {
  getCurrentBuffer?(): Buffer
}

/**
 * Closes the connection of a request that offers an upgrade, as Java's client does for h2c on each, unless it is certain that nothing
 * came with it: no offer is granted, but Node's parser drops what follows such a request in the same packet, and a proxy may have
 * seen a request there. Call it when the request has just begun.
 */
export function closeAfterUncertainOffer(response: Response, isStopping: () => boolean): void {
  const { req: request } = response
  const end = endOfOffer(request)
  if (end === request.socket.bytesRead) return
  response.setHeader('Connection', 'close')
  if (end === undefined || end < request.socket.bytesRead) return
  // The rest of its body is still to come.
  request.once('end', () => {
    const isCertain = request.socket.bytesRead === end && !response.headersSent && !isStopping()
    if (isCertain) response.setHeader('Connection', 'keep-alive')
  })
}

/**
 * Where the request ends, in bytes of its connection. `undefined` if that is not certain: only where the packet begins with it, and
 * no other head ends there, whatever the parser takes for the end of a line.
 */
function endOfOffer({ method, headers, socket }: Request): number | undefined {
  const { parser } = socket as unknown as { readonly parser?: Parser }
  const packet = parser?.getCurrentBuffer?.().toString('latin1') ?? ''
  const [head = '', body, ...more] = packet.split(HEAD_END)
  const isAlone = body !== undefined && more.length === 0 && head.startsWith(`${method} `)
  if (!isAlone || /(?:^|[^\r])\n/.test(head) || headers['transfer-encoding'] !== undefined) {
    return undefined
  }
  return socket.bytesRead - body.length + Number(headers['content-length'] ?? 0)
}
