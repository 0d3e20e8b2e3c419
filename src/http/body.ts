import { promisify } from 'node:util'
import { isUint8Array } from 'node:util/types'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import type { Request, RequestHandler } from 'express'
import { ServiceError } from '../errors.ts'
import { JSON_TYPE, parseMediaTypes } from './negotiation.ts'

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

type Decompress = (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>

/** The content codings of request bodies: RFC 9110 8.4.1, and brotli. `x-gzip` is an old name of gzip. */
export const DECOMPRESSORS: ReadonlyMap<string, Decompress> = new Map([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
])

/** The media types that PATCH takes: it changes the fields that are sent, as RFC 7396 says of a merge patch. */
export const PATCH_TYPES = [JSON_TYPE, 'application/merge-patch+json']

/** RFC 5789 3.1. */
export const ACCEPT_PATCH = { 'Accept-Patch': PATCH_TYPES.join(', ') }

/** The most that a coding adds to data that it cannot shrink. */
const MAX_CODING_OVERHEAD_BYTES = 1024

/**
 * Puts the JSON value of the body into `request.body`; `undefined` without a body. If an outer application has already
 * read the body, its result is used.
 * Throws `media_type_unsupported`, `encoding_unsupported`, `body_too_large` and `body_malformed`, in this order.
 */
export function readJsonBody(limitBytes: number): RequestHandler {
  return async (request, _response, next) => {
    request.body = hasBody(request) ? await readJson(request, limitBytes) : undefined
    next()
  }
}

/**
 * The value of a body that an outer application has already read: its JSON parser leaves the value, its text parser a string,
 * its raw parser bytes. A body that was read and discarded counts as empty.
 */
function takeParsed(body: unknown, limitBytes: number): unknown {
  if (typeof body !== 'string' && !isUint8Array(body)) return body
  const bytes = Buffer.from(body)
  if (bytes.length > limitBytes) throw new ServiceError('body_too_large')
  return parseJson(bytes)
}

async function readJson(request: Request, limitBytes: number): Promise<unknown> {
  const refusal = findHeadRefusal(request)
  if (refusal !== undefined) {
    if (request.arrival.awaitsContinue || request.readableEnded) throw refusal
    // Only the first byte or the end of a chunked body shows whether it is empty.
    await readBytes(request, 0, refusal)
    return undefined
  }
  if (request.readableEnded) return takeParsed(request.body, limitBytes)
  const decompress = DECOMPRESSORS.get(codingOf(request))
  if (decompress === undefined) return parseJson(await readBytes(request, limitBytes))
  const compressed = await readBytes(request, limitBytes + MAX_CODING_OVERHEAD_BYTES)
  if (compressed.length === 0) return undefined
  return parseJson(await decompressed(compressed, decompress, limitBytes))
}

/** The error for a body with these headers, if they are not accepted. */
function findHeadRefusal(request: Request): ServiceError | undefined {
  const { method, headers } = request
  const isPatch = method === 'PATCH'
  if (!isJsonInUtf8(headers['content-type'] ?? '', isPatch ? PATCH_TYPES : [JSON_TYPE])) {
    return new ServiceError('media_type_unsupported', isPatch ? { headers: ACCEPT_PATCH } : {})
  }
  const coding = codingOf(request)
  const isKnown = coding === '' || coding === 'identity' || DECOMPRESSORS.has(coding)
  return isKnown || request.readableEnded ? undefined : new ServiceError('encoding_unsupported')
}

function codingOf({ headers }: Request): string {
  return headers['content-encoding']?.trim().toLowerCase() ?? ''
}

function isJsonInUtf8(contentType: string, types: readonly string[]): boolean {
  if (contentType === JSON_TYPE) return true
  const [mediaType, ...others] = parseMediaTypes(contentType) ?? []
  if (mediaType === undefined || others.length > 0) return false
  const { type, subtype, parameters } = mediaType
  const isUtf8 = parameters.every(
    ({ name, value }) => name !== 'charset' || /^("?)utf-?8\1$/i.test(value),
  )
  return types.includes(`${type}/${subtype}`) && isUtf8
}

/** A request has a body if its headers give a length, and that is not zero: RFC 9112 6.3. */
function hasBody({ headers }: Request): boolean {
  if (headers['transfer-encoding'] !== undefined) return true
  const length = headers['content-length']
  return length !== undefined && Number(length) !== 0
}

/**
 * The bytes of the body. Throws `refusal`, or `body_too_large` without one, if there are more than `limitBytes`. Node reads
 * and discards the rest once the response is sent: a client that is still sending may not read the response before it has
 * finished.
 */
function readBytes(request: Request, limitBytes: number, refusal?: ServiceError): Promise<Buffer> {
  const tooLarge = () => refusal ?? new ServiceError('body_too_large')
  if (Number(request.headers['content-length'] ?? 0) > limitBytes) return Promise.reject(tooLarge())
  if (request.arrival.awaitsContinue) {
    request.arrival.awaitsContinue = false
    request.res?.writeContinue()
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    request
      .on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > limitBytes) {
          chunks.length = 0
          reject(tooLarge())
        } else chunks.push(chunk)
      })
      .on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
      .on('error', cause => reject(new ServiceError('request_malformed', { cause })))
  })
}

async function decompressed(
  compressed: Buffer,
  decompress: Decompress,
  maxOutputLength: number,
): Promise<Buffer> {
  try {
    return await decompress(compressed, { maxOutputLength })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new ServiceError('body_too_large', { cause })
    }
    const message = 'The body is not in the format that its Content-Encoding names'
    throw new ServiceError('body_malformed', { cause, message })
  }
}

/** Invalid UTF-8 is rejected, not replaced, so that no name is stored in another spelling. */
function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined
  try {
    return JSON.parse(UTF_8.decode(bytes))
  } catch (cause) {
    throw new ServiceError('body_malformed', { cause })
  }
}
