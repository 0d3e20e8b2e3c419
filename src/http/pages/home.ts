import type { Request } from 'express'
import { HTML_TYPE, JSON_TYPE, parseAccept, qualityOf } from '../negotiation.ts'
import type { Reply } from '../reply.ts'
import { createPageFiles } from './packed-page.ts'

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

/** No scripts, one style sheet, and an empty icon so that browsers ask for no other. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "style-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

export interface HomeOptions {
  readonly version: string
  /** Whether requests for users need an API key. */
  readonly needsKeys: boolean
  /** Whether requests can be served, as `/readyz` says. */
  readonly isReady: () => Promise<boolean>
}

/** `GET /` says where everything else is: as a page to a client that prefers HTML, otherwise as JSON. */
export function answerWithHome({ version, needsKeys, isReady }: HomeOptions) {
  const read = createPageFiles('docs')

  async function page({ baseUrl }: Request): Promise<Reply> {
    const html = await read('home.html')
    return {
      status: 200,
      headers: { 'Content-Security-Policy': CONTENT_SECURITY_POLICY },
      body: baseUrl === '' ? html : withLinksBelow(baseUrl, String(html)),
      type: `${HTML_TYPE}; charset=utf-8`,
    }
  }

  return async (request: Request): Promise<Reply> => {
    const preferences = parseAccept(request.headers.accept)
    const prefersHtml = qualityOf(preferences, HTML_TYPE) > qualityOf(preferences, JSON_TYPE)
    if (prefersHtml) return page(request)
    const status = (await isReady()) ? 'ok' : 'unavailable'
    const described = homeAsJson({ version, needsKeys, status, baseUrl: request.baseUrl })
    return { status: 200, body: JSON.stringify(described) }
  }
}

/** What `GET /` answers as JSON. */
export function homeAsJson({
  version,
  needsKeys,
  status,
  baseUrl,
}: Pick<HomeOptions, 'version' | 'needsKeys'> & {
  readonly status: string
  readonly baseUrl: string
}): Readonly<Record<string, string>> {
  const paths = Object.entries(PATHS).map(([name, path]) => [name, baseUrl + path])
  const message = needsKeys ? MESSAGE + MESSAGE_ABOUT_KEYS : MESSAGE
  return { message, version, status, ...Object.fromEntries(paths) }
}

/** The page with its links below the path where another application has mounted the service. */
function withLinksBelow(baseUrl: string, html: string): string {
  const base = baseUrl.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
  return html.replaceAll('href="/', () => `href="${base}/`)
}
