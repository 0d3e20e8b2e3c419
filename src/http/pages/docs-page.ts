import type { Endpoint } from '../endpoints.ts'
import { packedPageRoutes } from './packed-page.ts'
import { describeDocs } from './page-operations.ts'

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

/** `GET /docs`, the OpenAPI document for people, with requests to try, and below it the files that its page loads. */
export function docsRoutes(): readonly Endpoint[] {
  return packedPageRoutes({
    folder: 'docs',
    path: '/docs',
    assetsPath: '/docs',
    policy: CONTENT_SECURITY_POLICY,
    operation: describeDocs,
  })
}
