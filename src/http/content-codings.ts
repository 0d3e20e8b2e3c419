import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'

/** Rejects with `ERR_BUFFER_TOO_LARGE` beyond `maxOutputLength` bytes. */
export type Decompress = (
  compressed: Buffer,
  options: { readonly maxOutputLength: number },
) => Promise<Buffer>

/** An old name of gzip, which clients may send: RFC 9110 8.4.1.3. */
const OLD_GZIP = 'x-gzip'

/** The content codings of request bodies: RFC 9110 8.4.1, and brotli. */
export const DECOMPRESSORS: ReadonlyMap<string, Decompress> = new Map([
  ['gzip', promisify(gunzip)],
  [OLD_GZIP, promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
])

/** The value of `Accept-Encoding` in responses. */
export const ACCEPT_ENCODING = [...DECOMPRESSORS.keys()]
  .filter(name => name !== OLD_GZIP)
  .join(', ')
