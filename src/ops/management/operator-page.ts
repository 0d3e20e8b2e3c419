import type { Request, Router } from 'express'
import { HTML_TYPE } from '../../http/negotiation.ts'
import { assetReply, pageReply } from '../../http/pages/page-files.ts'
import { accept, createRouter, type RouteParts } from '../../http/router.ts'

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
export function createOperatorPage({ answer, otherMethods }: RouteParts): Router {
  const page = () => pageReply('operator/index.html', CONTENT_SECURITY_POLICY)
  const asset = (request: Request) => assetReply('operator', request)
  const router = createRouter()
  router.route('/').get(accept(HTML_TYPE), answer(page)).all(otherMethods)
  router.route('/assets/:release/:file').get(answer(asset)).all(otherMethods)
  return router
}
