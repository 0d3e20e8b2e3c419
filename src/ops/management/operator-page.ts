import type { Endpoint } from '../../http/endpoints.ts'
import { HTML_TYPE } from '../../http/negotiation.ts'
import { assetReply, pageReply } from '../../http/pages/page-files.ts'

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
export function operatorPageRoutes(): readonly Endpoint[] {
  return [
    {
      method: 'get',
      path: '/',
      isOpen: true,
      produces: [HTML_TYPE],
      handle: () => pageReply('operator/index.html', CONTENT_SECURITY_POLICY),
    },
    {
      method: 'get',
      path: '/assets/{release}/{file}',
      isOpen: true,
      produces: [],
      handle: request => assetReply('operator', request),
    },
  ]
}
