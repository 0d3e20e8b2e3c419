import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import type { Request } from 'express'
import { ServiceError } from '../../errors.ts'
import { PACKAGE_ROOT } from '../../platform/package.ts'
import { HTML_TYPE } from '../negotiation.ts'
import type { Reply } from '../reply.ts'

/** The output of `scripts/build-pages.mjs`. */
const DIST = new URL('dist/', PACKAGE_ROOT)

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
}

const ASSET_HEADERS = {
  'Cache-Control': 'public, max-age=31536000, immutable',
  Vary: 'Accept, Accept-Encoding',
}

/** The Content-Security-Policy of a page that loads nothing but `sources`, such as `img-src 'self'`, and that no page may frame. */
export const contentSecurityPolicy = (sources: string) =>
  `default-src 'none'; ${sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** The page in a file of `dist`, such as `docs/index.html`. */
export async function pageReply(file: string, policy: string): Promise<Reply> {
  return {
    status: 200,
    headers: { 'Content-Security-Policy': policy },
    body: await readFile(new URL(file, DIST)),
    type: `${HTML_TYPE}; charset=utf-8`,
  }
}

/**
 * A file that a page loads, from a folder of `dist`. `release` is a hash of all its files, so that what is at one path never
 * changes. Throws `path_not_found`.
 */
export async function assetReply(folder: string, request: Request): Promise<Reply> {
  const path = `${request.params.release}/${request.params.file}`
  const [, release, file] = /^([0-9a-f]{16})\/(\w[\w.-]{0,99})$/.exec(path) ?? []
  if (release === undefined || file === undefined) throw new ServiceError('path_not_found')
  const isGzip = request.acceptsEncodings('gzip', 'identity') === 'gzip'
  const url = new URL(`${folder}/${release}${isGzip ? '.gz' : ''}/${file}`, DIST)
  const body = await readFile(url).catch(cause => {
    throw cause.code === 'ENOENT' ? new ServiceError('path_not_found') : cause
  })
  return {
    status: 200,
    headers: { ...ASSET_HEADERS, ...(isGzip && { 'Content-Encoding': 'gzip' }) },
    body,
    type: `${TYPES[extname(file)] ?? 'text/plain'}; charset=utf-8`,
  }
}
