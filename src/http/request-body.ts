import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import type { Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { parseMediaTypes } from './media-types.ts'

type Decompress = (compressed: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>

/** Content codings of RFC 9110 8.4.1, and brotli. */
const DECOMPRESSORS: ReadonlyMap<string, Decompress> = new Map([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
])

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** What a coding adds to data that it cannot shrink, at the most. */
const MAX_CODING_OVERHEAD_BYTES = 1024

/**
 * Leaves the JSON value of the body in `request.body`; `undefined` where there is none.
 * Throws `media_type_unsupported`, `encoding_unsupported`, `body_too_large` and `body_malformed`, in this order.
 */
export function readJsonBody(limitBytes: number): RequestHandler {
  return async (request, _response, next) => {
    request.body = hasBody(request) ? await readJson(request, limitBytes) : undefined
    next()
  }
}

async function readJson(request: Request, limitBytes: number): Promise<unknown> {
  if (!isJsonInUtf8(request.headers['content-type'] ?? '')) {
    throw new ServiceError('media_type_unsupported')
  }
  const coding = request.headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (coding === '' || coding === 'identity') return parseJson(await readBytes(request, limitBytes))
  const decompress = DECOMPRESSORS.get(coding)
  if (decompress === undefined) throw new ServiceError('encoding_unsupported')
  const compressed = await readBytes(request, limitBytes + MAX_CODING_OVERHEAD_BYTES)
  return parseJson(await inflated(compressed, decompress, limitBytes))
}

function isJsonInUtf8(contentType: string): boolean {
  if (contentType === 'application/json') return true
  const [mediaType, ...others] = parseMediaTypes(contentType) ?? []
  if (mediaType === undefined || others.length > 0) return false
  const { type, subtype, parameters } = mediaType
  const isUtf8 = parameters.every(
    ({ name, value }) => name !== 'charset' || /^("?)utf-8\1$/i.test(value),
  )
  return type === 'application' && subtype === 'json' && isUtf8
}

/** RFC 9112 6.3: a request has a body where it says how long it is, and it is not of length zero. */
function hasBody({ headers }: Request): boolean {
  if (headers['transfer-encoding'] !== undefined) return true
  const length = headers['content-length']
  return length !== undefined && Number(length) !== 0
}

/**
 * The bytes of the body, unless they are more than `limitBytes`. What comes after a refusal is read and thrown
 * away by Node once the answer is sent, because a client that is still sending may not look for an answer.
 */
function readBytes(request: Request, limitBytes: number): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > limitBytes) {
    return Promise.reject(new ServiceError('body_too_large'))
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    request
      .on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > limitBytes) {
          chunks.length = 0
          reject(new ServiceError('body_too_large'))
        } else chunks.push(chunk)
      })
      .on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
      .on('error', cause => reject(new ServiceError('request_malformed', { cause })))
  })
}

async function inflated(
  compressed: Buffer,
  decompress: Decompress,
  maxOutputLength: number,
): Promise<Buffer> {
  try {
    return await decompress(compressed, { maxOutputLength })
  } catch (cause) {
    const isTooLarge = (cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
    throw new ServiceError(isTooLarge ? 'body_too_large' : 'body_malformed', { cause })
  }
}

/** Bytes that are no UTF-8 are refused and not replaced, so that no name is stored other than it was meant. */
function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined
  try {
    return JSON.parse(UTF_8.decode(bytes))
  } catch (cause) {
    throw new ServiceError('body_malformed', { cause })
  }
}
