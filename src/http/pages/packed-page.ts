import { readFile } from 'node:fs/promises'
import type { Request, Router } from 'express'
import { ServiceError } from '../../errors.ts'
import { HTML_TYPE } from '../negotiation.ts'
import type { Reply } from '../reply.ts'
import { accept, createRouter, type RouteParts } from '../router.ts'

/** The output of `scripts/build-pages.mjs`, a folder for each page. The path is the same from `src` and from `dist`. */
const DIST = new URL('../../../dist/', import.meta.url)

/** What `assets.json` holds. */
interface Assets {
  /** A hash of all files, so that the content at one path never changes. */
  readonly release: string
  /** The Content-Type of each file. */
  readonly types: Readonly<Record<string, string>>
}

export interface PackedPage {
  /** Its folder in `dist`. */
  readonly folder: string
  readonly path: string
  /** The path before `/{release}/{file}` of the files that it loads. */
  readonly assetsPath: string
  /** The Content-Security-Policy of the page. */
  readonly policy: string
}

const ASSET_HEADERS = {
  'Cache-Control': 'public, max-age=31536000, immutable',
  Vary: 'Accept, Accept-Encoding',
}

/** Reads a file of a page on its first request, and keeps it. A failed read is tried again. */
export function createPageFiles(folder: string): (name: string) => Promise<Buffer> {
  const files = new Map<string, Promise<Buffer>>()
  return name => {
    const known = files.get(name)
    if (known !== undefined) return known
    const reading = readFile(new URL(`${folder}/${name}`, DIST))
    files.set(name, reading)
    reading.catch(() => files.delete(name))
    return reading
  }
}

/** A page and the files that it loads. */
export function createPageRouter(
  { folder, path, assetsPath, policy }: PackedPage,
  { answer, otherMethods }: RouteParts,
): Router {
  const read = createPageFiles(folder)

  async function page(): Promise<Reply> {
    return {
      status: 200,
      headers: { 'Content-Security-Policy': policy },
      body: await read('index.html'),
      type: `${HTML_TYPE}; charset=utf-8`,
    }
  }

  async function asset(request: Request): Promise<Reply> {
    const { release, types }: Assets = JSON.parse(String(await read('assets.json')))
    const name = String(request.params.file)
    const type = Object.hasOwn(types, name) ? types[name] : undefined
    if (type === undefined || request.params.release !== release) {
      throw new ServiceError('path_not_found')
    }
    const isGzip = request.acceptsEncodings('gzip', 'identity') === 'gzip'
    return {
      status: 200,
      headers: { ...ASSET_HEADERS, ...(isGzip && { 'Content-Encoding': 'gzip' }) },
      body: await read(isGzip ? `${name}.gz` : name),
      type,
    }
  }

  const router = createRouter()
  router.route(path).get(accept(HTML_TYPE), answer(page)).all(otherMethods)
  router.route(`${assetsPath}/:release/:file`).get(answer(asset)).all(otherMethods)
  return router
}
