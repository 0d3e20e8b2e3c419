import type { Request, Router } from 'express'
import { HTML_TYPE } from '../../http/negotiation.ts'
import { assetReply, contentSecurityPolicy, pageReply } from '../../http/pages/page-files.ts'
import { accept, createRouter, type RouteParts } from '../../http/router.ts'

const SOURCES = "script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"

/** Only files and requests of this port, and no text that becomes markup or script. */
const POLICY = `${contentSecurityPolicy(SOURCES)}; require-trusted-types-for 'script'; trusted-types 'none'`

/** `GET /`, the page for operators, and the files that it loads. They hold no data; the page asks `GET /status` for it. */
export function createOperatorPage({ answer, otherMethods }: RouteParts): Router {
  const page = () => pageReply('operator/index.html', POLICY)
  const asset = (request: Request) => assetReply('operator', request)
  const router = createRouter()
  router.route('/').get(accept(HTML_TYPE), answer(page)).all(otherMethods)
  router.route('/assets/:release/:file').get(answer(asset)).all(otherMethods)
  return router
}
