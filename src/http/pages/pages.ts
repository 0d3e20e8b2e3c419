import type { Request, Router } from 'express'
import { z } from 'zod'
import { mountPath } from '../forwarded.ts'
import { HTML_TYPE, JSON_TYPE, prefersToJson } from '../negotiation.ts'
import type { DescribedOperation, DocumentSettings } from '../openapi/operation.ts'
import type { Reply } from '../reply.ts'
import { accept, acceptJson, createRouter, type RouteParts } from '../router.ts'
import { assetReply, contentSecurityPolicy, pageReply } from './page-files.ts'

/** The paths that the home page links to, by their names in JSON. */
const PATHS = {
  docs: '/docs',
  openapi: '/openapi.json',
  users: '/users',
  health: '/livez',
  readiness: '/readyz',
}

const MESSAGE =
  'User Records Service: create, list, read, update and delete users, as JSON over HTTP.'

const MESSAGE_ABOUT_KEYS = ' Requests for users need an API key: "Authorization: Bearer KEY".'

const HOME = z.object({
  message: z.string(),
  version: z.string(),
  status: z.enum(['ok', 'unavailable']).describe('What `/readyz` says.'),
  ...Object.fromEntries(Object.keys(PATHS).map(name => [name, z.string()])),
})

const PAGE = { [HTML_TYPE]: { schema: z.string() } }

const OPENAPI = z.looseObject({ openapi: z.string().regex(/^3\.1\./) })

const ABOUT = {
  method: 'get',
  isOpen: true,
  tag: { name: 'About', description: 'What the service says about itself.' },
} as const

/** The operations in which the service describes itself. */
export const pageOperations = {
  showHome: {
    ...ABOUT,
    id: 'showHome',
    path: '/',
    produces: [JSON_TYPE, HTML_TYPE],
    summary: 'Where everything is',
    description: 'The paths of the service: a page for clients that prefer HTML, otherwise JSON.',
    answers: {
      200: { description: 'The paths.', content: { [JSON_TYPE]: { schema: HOME }, ...PAGE } },
    },
  },
  showDocs: {
    ...ABOUT,
    id: 'showDocs',
    path: '/docs',
    produces: [HTML_TYPE],
    summary: 'This document, for people',
    description: 'A page with the whole interface, and requests to try.',
    answers: { 200: { description: 'The page.', content: PAGE } },
  },
  readInterface: {
    ...ABOUT,
    id: 'readInterface',
    path: '/openapi.json',
    summary: 'This document',
    description: 'The interface in OpenAPI 3.1, with the settings of this service.',
    answers: {
      200: { description: 'An OpenAPI document.', content: { [JSON_TYPE]: { schema: OPENAPI } } },
    },
  },
} satisfies Record<string, DescribedOperation>

const HOME_POLICY = contentSecurityPolicy("script-src 'self'; style-src 'self'; img-src 'self'")

/** `data:` is for icons of Swagger UI. Styles that it sets on elements by script need no `unsafe-inline`. */
const DOCS_POLICY = contentSecurityPolicy(
  "script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'",
)

export interface PagesOptions {
  /** All operations of the service, for the document. */
  readonly operations: readonly DescribedOperation[]
  readonly settings: Omit<DocumentSettings, 'baseUrl'>
  /** Whether requests can be served, as `/readyz` says. */
  readonly isReady: () => Promise<boolean>
}

/** `GET /` for people and programs, the OpenAPI document, and `GET /docs`, which shows it, with the files that it loads. */
export function createPages(
  { operations, settings, isReady }: PagesOptions,
  { answer, otherMethods }: RouteParts,
): Router {
  const needsKeys = settings.scopes !== undefined

  async function home(request: Request): Promise<Reply> {
    const mount = mountPath(request)
    if (prefersToJson(HTML_TYPE, request.headers.accept)) {
      return withLinksBelow(mount, await pageReply('docs/home.html', HOME_POLICY))
    }
    const paths = Object.entries(PATHS).map(([name, path]) => [name, mount + path])
    const body = {
      message: needsKeys ? MESSAGE + MESSAGE_ABOUT_KEYS : MESSAGE,
      version: settings.version,
      status: (await isReady()) ? 'ok' : 'unavailable',
      ...Object.fromEntries(paths),
    }
    return { status: 200, body: JSON.stringify(body) }
  }

  const docs = () => pageReply('docs/index.html', DOCS_POLICY)
  const asset = (request: Request) => assetReply('docs', request)
  let made: string | undefined
  async function document(request: Request): Promise<Reply> {
    if (made === undefined) {
      const { createDocument } = await import('../openapi/create-document.ts')
      made = JSON.stringify(createDocument(operations, { ...settings, baseUrl: ANY_MOUNT }))
    }
    return { status: 200, body: made.replace(ANY_MOUNT, () => mountPath(request) || '/') }
  }

  const router = createRouter()
  router.route('/').get(accept(JSON_TYPE, HTML_TYPE), answer(home)).all(otherMethods)
  router.route('/docs').get(accept(HTML_TYPE), answer(docs)).all(otherMethods)
  router.route('/docs/:release/:file').get(answer(asset)).all(otherMethods)
  router.route('/openapi.json').get(acceptJson, answer(document)).all(otherMethods)
  return router
}

/** What stands before a path. */
const LINK = /(?:href|src)="(?=\/)/g

/** The page with its links below the path where another application has mounted the service. */
function withLinksBelow(mount: string, page: Reply): Reply {
  if (mount === '') return page
  const base = mount.replaceAll('&', '&amp;')
  return { ...page, body: String(page.body).replace(LINK, attribute => attribute + base) }
}

/** Stands for the path of the mount, which clients may choose: the document is made once, when it is first asked for. */
const ANY_MOUNT = '/ANY_MOUNT'
