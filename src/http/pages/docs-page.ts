import type { Router } from 'express'
import type { RouteParts } from '../router.ts'
import { createPageRouter } from './packed-page.ts'

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
export function createDocsRouter(parts: RouteParts): Router {
  const page = { folder: 'docs', path: '/docs', assetsPath: '/docs' }
  return createPageRouter({ ...page, policy: CONTENT_SECURITY_POLICY }, parts)
}
