import { readFile } from 'node:fs/promises'
import type { Request } from 'express'
import { ServiceError } from '../errors.ts'
import { preferredCoding } from './content-coding.ts'
import type { Endpoint } from './endpoints.ts'
import { HTML_TYPE } from './negotiation.ts'
import { describeDocs, describeDocsFile } from './page-operations.ts'
import type { Reply } from './reply.ts'

/** What `scripts/build-docs.mjs` makes; the same for the source and for what is built of it. */
const FOLDER = new URL('../../dist/docs/', import.meta.url)

/** Of `assets.json`. */
interface Assets {
  /** Names the contents of all files together, so that under one address there never is another content. */
  readonly release: string
  readonly files: readonly Asset[]
}

interface Asset {
  readonly name: string
  readonly type: string
  /** Of which there is a compressed form, the best one first. */
  readonly codings: readonly string[]
}

/**
 * Scripts, styles and requests of this service and nothing else. `data:` is for the arrows and the like that stand in the
 * style sheet of Swagger UI. What it sets on elements by script needs no `unsafe-inline`.
 */
const PAGE_CSP = [
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
 * `GET /docs` is the document for people, with requests to try; what its page loads lies under it. A file is read when
 * it is first asked for, and then kept, so that a service whose page nobody opens neither waits nor pays for it.
 */
export function docsRoutes(): readonly Endpoint[] {
  const read = keeping(path => readFile(new URL(path, FOLDER)))
  const assets = keeping(async path => JSON.parse(String(await read(path))) as Assets)

  async function page(): Promise<Reply> {
    const { release } = await assets('assets.json')
    return {
      status: 200,
      headers: { 'Content-Security-Policy': PAGE_CSP },
      body: await read(`${release}/index.html`),
      type: `${HTML_TYPE}; charset=utf-8`,
    }
  }

  async function asset({ params, headers }: Request): Promise<Reply> {
    const { release, files } = await assets('assets.json')
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
      produces: [HTML_TYPE],
      handle: page,
      operation: describeDocs,
    },
    {
      method: 'get',
      path: '/docs/{release}/{file}',
      produces: [],
      handle: asset,
      operation: describeDocsFile,
    },
  ]
}

/** What `load` made of each path, for good; what it failed to make is tried again. */
function keeping<T>(load: (path: string) => Promise<T>): (path: string) => Promise<T> {
  const kept = new Map<string, Promise<T>>()
  return path => {
    const known = kept.get(path)
    if (known !== undefined) return known
    const loading = load(path)
    kept.set(path, loading)
    loading.catch(() => kept.delete(path))
    return loading
  }
}
