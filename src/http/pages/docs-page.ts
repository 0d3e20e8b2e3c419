import type { Request } from 'express'
import { ServiceError } from '../../errors.ts'
import type { Endpoint } from '../endpoints.ts'
import { HTML_TYPE } from '../negotiation.ts'
import type { Reply } from '../reply.ts'
import { preferredCoding } from './content-coding.ts'
import { createPageFiles, withLinksBelow } from './page-files.ts'
import { describeDocs } from './page-operations.ts'

/** What `assets.json` holds. */
interface Assets {
  /** A hash of all files, so that the content at one path never changes. */
  readonly release: string
  readonly files: readonly Asset[]
}

interface Asset {
  readonly name: string
  readonly type: string
  /** The content codings in which it is also stored, the best one first. */
  readonly codings: readonly string[]
}

/**
 * Only scripts, styles and requests of this service. `data:` is for icons in the style sheet of Swagger UI. Styles that it
 * sets on elements by script need no `unsafe-inline`.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const ASSET_HEADERS = {
  'Cache-Control': 'public, max-age=31536000, immutable',
  Vary: 'Accept, Accept-Encoding',
}

/**
 * `GET /docs`, the OpenAPI document for people, with requests to try, and below it the files that its page loads. Each file
 * is read on its first request and then kept, so that a service whose page nobody opens pays nothing for it.
 */
export function docsRoutes(): readonly Endpoint[] {
  const read = createPageFiles()
  const readAssets = async () => JSON.parse(String(await read('assets.json'))) as Assets

  async function page({ baseUrl }: Request): Promise<Reply> {
    const { release } = await readAssets()
    const html = await read(`${release}/index.html`)
    return {
      status: 200,
      headers: { 'Content-Security-Policy': CONTENT_SECURITY_POLICY },
      body: baseUrl === '' ? html : withLinksBelow(baseUrl, String(html)),
      type: `${HTML_TYPE}; charset=utf-8`,
    }
  }

  async function asset({ params, headers }: Request): Promise<Reply> {
    const { release, files } = await readAssets()
    const file = files.find(({ name }) => name === params.file)
    if (file === undefined || params.release !== release) throw new ServiceError('path_not_found')
    const coding = preferredCoding(headers['accept-encoding'], file.codings)
    const path = `${release}/${file.name}`
    return {
      status: 200,
      headers: { ...ASSET_HEADERS, ...(coding !== undefined && { 'Content-Encoding': coding }) },
      body: await read(coding === undefined ? path : `${path}.${coding}`),
      type: file.type,
    }
  }

  return [
    {
      method: 'get',
      path: '/docs',
      isOpen: true,
      produces: [HTML_TYPE],
      handle: page,
      operation: describeDocs,
    },
    {
      method: 'get',
      path: '/docs/{release}/{file}',
      isOpen: true,
      produces: [],
      handle: asset,
    },
  ]
}
