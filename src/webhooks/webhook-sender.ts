import { lookup } from 'node:dns'
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { readVersion } from '../platform/package.ts'
import { clearTimeout, setTimeout } from '../platform/timers.ts'

/** What is kept of an answer. */
export interface Receipt {
  readonly status: number
  /** The header as it came. */
  readonly retryAfter: string | undefined
}

export interface SendOptions {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** Until the head of the answer is there. */
  readonly timeoutMs: number
}

/** Shorter than servers keep idle connections. */
const IDLE_MS = 2000

/** What an answer may have after its head, and how long that may take: the next request waits for the connection. */
const MAX_REST_BYTES = 65_536
const REST_MS = 1000

/**
 * Posts to one address, over a connection that is kept while one request follows another. `resolve` looks up names, as that of
 * `node:dns` does.
 */
export function createSender(address: string, { resolve = lookup } = {}) {
  const url = new URL(address)
  // Nobody looks up an address that is a number.
  const literal = url.hostname.replace(/^\[|\]$/g, '')
  const isTls = url.protocol === 'https:'
  const agentOptions = {
    keepAlive: true,
    maxSockets: 1,
    timeout: IDLE_MS,
    lookup: lookupAllowed(resolve),
  }
  const agent = isTls ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions)
  let isClosed = false
  let newest: ClientRequest | undefined

  async function post(options: SendOptions, signal: AbortSignal): Promise<IncomingMessage> {
    const { body, headers } = options
    const request = (isTls ? httpsRequest : httpRequest)(url, {
      method: 'POST',
      agent,
      signal,
      headers: {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
        'User-Agent': `user-records-service/${readVersion()}`,
        ...headers,
      },
    })
    newest = request
    try {
      return await headOfAnswer(request.end(body))
    } catch (error) {
      // The other side has closed a connection that was kept.
      const isStale = (error as NodeJS.ErrnoException).code === 'ECONNRESET' && request.reusedSocket
      if (!isStale || isClosed) throw error
      return post(options, signal)
    }
  }

  return {
    /** Rejects with the reason in words if there is no answer. */
    send: async (options: SendOptions): Promise<Receipt> => {
      const { timeoutMs } = options
      if (isRefusedAddress(literal)) throw refusal(literal)
      const signal = AbortSignal.timeout(timeoutMs)
      const { statusCode: status = 0, headers } = await post(options, signal).catch(error => {
        throw signal.aborted ? new Error(`no answer in ${timeoutMs} ms`) : error
      })
      return { status, retryAfter: headers['retry-after'] }
    },

    /** Cuts off the request that runs, or that waits for the rest of an answer. */
    close: (): void => {
      isClosed = true
      // One that waits for the connection would get a new one.
      newest?.destroy()
      agent.destroy()
    },
  }
}

/** Takes the head, and drops the rest, which nobody needs. */
function headOfAnswer(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on('error', reject)
    request.on('response', response => {
      resolve(response)
      const cutOff = () => request.destroy()
      const timer = setTimeout(cutOff, REST_MS)
      request.on('close', () => clearTimeout(timer))
      let restBytes = 0
      response
        .on('error', () => {})
        .on('data', ({ length }: Buffer) => {
          restBytes += length
          if (restBytes > MAX_REST_BYTES) cutOff()
        })
    })
    // Of 101, which nobody has asked for.
    request.on('upgrade', (response, socket) => {
      resolve(response)
      socket.destroy()
    })
  })
}

const REFUSED = new BlockList()
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['169.254.0.0', 16],
  ['224.0.0.0', 4],
  ['255.255.255.255', 32],
] as const) {
  REFUSED.addSubnet(network, prefix, 'ipv4')
  // The same behind NAT64 (RFC 6052). Those mapped into IPv6 are found by themselves.
  REFUSED.addSubnet(`64:ff9b::${network}`, 96 + prefix, 'ipv6')
}
for (const [network, prefix] of [
  ['::', 128],
  ['fe80::', 10],
  ['ff00::', 8],
  // Metadata of Amazon, Google and Oracle.
  ['fd00:ec2::254', 128],
  ['fd20:ce::254', 128],
  ['fd00:c1::a9fe:a9fe', 128],
] as const) {
  REFUSED.addSubnet(network, prefix, 'ipv6')
}

/** Whether an address is link-local, multicast or unspecified, as those of cloud metadata are. */
export function isRefusedAddress(address: string): boolean {
  const [plain = ''] = address.split('%')
  return isIP(plain) !== 0 && REFUSED.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4')
}

function refusal(address: string): Error {
  return new Error(`${address} is an address that webhooks may not have`)
}

/** Finds addresses of names, and refuses a name that has one that is refused. */
function lookupAllowed(resolve: typeof lookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const refused = addresses?.find(({ address }) => isRefusedAddress(address))
      const failure = error ?? (refused && refusal(refused.address))
      if (failure) callback(failure as NodeJS.ErrnoException, [])
      else if (options.all) callback(null, addresses)
      else callback(null, addresses[0]?.address ?? '', addresses[0]?.family)
    })
  }
}
