import type { Router } from 'express'
import { createPageRouter } from '../../http/pages/packed-page.ts'
import type { RouteParts } from '../../http/router.ts'

/** Only files and requests of this port, and no text that becomes markup or script. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

/** `GET /`, the page for operators, and the files that it loads. They hold no data; the page asks `GET /status` for it. */
export function createOperatorPage(parts: RouteParts): Router {
  const page = { folder: 'operator', path: '/', assetsPath: '/assets' }
  return createPageRouter({ ...page, policy: CONTENT_SECURITY_POLICY }, parts)
}
