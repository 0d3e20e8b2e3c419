import type { Request } from 'express'
import { ServiceError } from '../../errors.ts'
import type { Endpoint } from '../endpoints.ts'
import { HTML_TYPE } from '../negotiation.ts'
import type { Operation } from '../operation.ts'
import type { Reply } from '../reply.ts'
import { preferredCoding } from './content-coding.ts'
import { createPageFiles, withLinksBelow } from './page-files.ts'

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

export interface PackedPage {
  /** Its folder in `dist`, as `scripts/build-pages.mjs` writes it. */
  readonly folder: string
  readonly path: string
  /** The path before `/{release}/{file}` of the files that it loads. */
  readonly assetsPath: string
  /** The Content-Security-Policy of the page. */
  readonly policy: string
  /** Describes the page for the OpenAPI document. */
  readonly operation?: () => Operation
}

const ASSET_HEADERS = {
  'Cache-Control': 'public, max-age=31536000, immutable',
  Vary: 'Accept, Accept-Encoding',
}

/**
 * A page and the files that it loads. Each file is read on its first request and then kept, so that a service whose page
 * nobody opens pays nothing for it.
 */
export function packedPageRoutes(options: PackedPage): readonly Endpoint[] {
  const { folder, path, assetsPath, policy, operation } = options
  const read = createPageFiles(folder)
  const readAssets = async () => JSON.parse(String(await read('assets.json'))) as Assets

  async function page({ baseUrl }: Request): Promise<Reply> {
    const { release } = await readAssets()
    const html = await read(`${release}/index.html`)
    return {
      status: 200,
      headers: { 'Content-Security-Policy': policy },
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
      path,
      isOpen: true,
      produces: [HTML_TYPE],
      handle: page,
      ...(operation && { operation }),
    },
    {
      method: 'get',
      path: `${assetsPath}/{release}/{file}`,
      isOpen: true,
      produces: [],
      handle: asset,
    },
  ]
}
