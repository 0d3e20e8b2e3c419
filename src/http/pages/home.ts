import { createHash } from 'node:crypto'
import type { Request } from 'express'
import type { Endpoint } from '../endpoints.ts'
import { HTML_TYPE, JSON_TYPE, parseAccept, qualityOf } from '../negotiation.ts'
import type { Reply } from '../reply.ts'
import { createPageFiles, escapeHtml, withLinksBelow } from './page-files.ts'
import { describeHome } from './page-operations.ts'

/** The paths that the page links to, by their names in JSON. */
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

/** What each command of the page sends where keys are required. */
const KEY_OPTION = " -H 'Authorization: Bearer KEY'"

/** What the page says only where keys are required. */
const ABOUT_KEYS = /\{keys\}([^{}]*)\{\/keys\}/g

/** The address in the README, shown to a client whose Host is not a plain name. */
const USUAL_ORIGIN = 'http://127.0.0.1:3000'

/** A name or an address, perhaps with a port, without characters that are special in a shell or in HTML. */
const PLAIN_HOST = /^(?:[a-z0-9][\w.-]*|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

const PLAIN_PATH = /^[\w./~-]*$/

export interface HomeOptions {
  readonly version: string
  /** Whether requests for users need an API key. */
  readonly needsKeys: boolean
  /** Whether requests can be served, as `/readyz` says. */
  readonly isReady: () => Promise<boolean>
}

/** `GET /` says where everything else is: as a page to a client that prefers HTML, otherwise as JSON. */
export function homeRoute({ version, needsKeys, isReady }: HomeOptions): Endpoint {
  const read = createPageFiles('docs')

  async function page(request: Request): Promise<Reply> {
    const template = String(await read('home.html'))
    const html = template
      .replace('{version}', () => escapeHtml(version))
      .replaceAll(ABOUT_KEYS, (_all, text: string) => (needsKeys ? text : ''))
      .replaceAll('{key}', needsKeys ? KEY_OPTION : '')
      .replaceAll('{origin}', () => originOf(request))
    return {
      status: 200,
      headers: { 'Content-Security-Policy': policyOf(template) },
      type: `${HTML_TYPE}; charset=utf-8`,
      body: withLinksBelow(request.baseUrl, html),
    }
  }

  function describe(status: string, baseUrl: string): Readonly<Record<string, string>> {
    const paths = Object.entries(PATHS).map(([name, path]) => [name, baseUrl + path])
    const message = needsKeys ? MESSAGE + MESSAGE_ABOUT_KEYS : MESSAGE
    return { message, version, status, ...Object.fromEntries(paths) }
  }

  return {
    method: 'get',
    path: '/',
    isOpen: true,
    produces: [JSON_TYPE, HTML_TYPE],
    operation: () => describeHome(describe('ok', '')),
    handle: async request => {
      const preferences = parseAccept(request.headers.accept)
      const prefersHtml = qualityOf(preferences, HTML_TYPE) > qualityOf(preferences, JSON_TYPE)
      if (prefersHtml) return page(request)
      const status = (await isReady()) ? 'ok' : 'unavailable'
      return { status: 200, body: JSON.stringify(describe(status, request.baseUrl)) }
    },
  }
}

/** No scripts, the one style of the page by its hash, and an empty icon so that browsers ask for no other. */
function policyOf(html: string): string {
  const [, style = ''] = html.replace('</style>', '<style>').split('<style>')
  const hash = createHash('sha256').update(style).digest('base64')
  return [
    "default-src 'none'",
    `style-src 'sha256-${hash}'`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

/**
 * The address that the client used, under TRUST_PROXY, with the path of an outer application. The page shows it, so a host or
 * path with special characters is not used.
 */
function originOf(request: Request): string {
  const host: string | undefined = request.host
  if (host === undefined || !PLAIN_HOST.test(host)) return USUAL_ORIGIN
  const path = PLAIN_PATH.test(request.baseUrl) ? request.baseUrl : ''
  return `${request.protocol === 'https' ? 'https' : 'http'}://${host}${path}`
}
