import type { Request } from 'express'
import type { Endpoint } from './endpoints.ts'
import { createHomePage, type Place } from './home-page.ts'
import { HTML_TYPE, JSON_TYPE, parseAccept, qualityOf } from './negotiation.ts'
import { describeHome } from './page-operations.ts'

export interface HomeOptions {
  readonly version: string
  /** Whether it is worth sending requests to, as `/readyz` says it. */
  readonly isReady: () => Promise<boolean>
}

/** By the names that they have in JSON. */
const PLACES: Readonly<Record<string, Place>> = {
  docs: { path: '/docs', what: 'the interface, to read and to try' },
  openapi: { path: '/openapi.json', what: 'the same for programs, as OpenAPI 3.1' },
  users: { path: '/users', what: 'the users, a hundred at a time' },
  health: { path: '/livez', what: 'whether the process runs' },
  readiness: { path: '/readyz', what: 'whether it can serve' },
}

const MESSAGE =
  'User Records Service: create, list, read, update and delete users, as JSON over HTTP.'

/** Where the README says that it serves, for who asks by a name that is none. */
const USUAL_ORIGIN = 'http://127.0.0.1:3000'

/** A name or an address, perhaps a port, and nothing that means more than itself to a shell or in HTML. */
const PLAIN_HOST = /^(?:[a-z0-9][\w.-]*|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

/** `GET /` tells where everything else is: as a page to who likes HTML better, as JSON to all others. */
export function homeRoute({ version, isReady }: HomeOptions): Endpoint {
  const page = createHomePage({ version, places: Object.values(PLACES) })
  const paths = Object.fromEntries(Object.entries(PLACES).map(([name, { path }]) => [name, path]))
  const asJson = (isReadyNow: boolean) => {
    const status = isReadyNow ? 'ok' : 'unavailable'
    return { message: MESSAGE, version, status, ...paths }
  }
  return {
    method: 'get',
    path: '/',
    produces: [JSON_TYPE, HTML_TYPE],
    operation: () => describeHome(asJson(true)),
    handle: async request => {
      const preferences = parseAccept(request.headers.accept)
      const likesHtml = qualityOf(preferences, HTML_TYPE) > qualityOf(preferences, JSON_TYPE)
      const isReadyNow = await isReady()
      return likesHtml
        ? page({ isReady: isReadyNow, origin: originOf(request) })
        : { status: 200, body: JSON.stringify(asJson(isReadyNow)) }
    },
  }
}

/** As the client has it, under TRUST_PROXY. What it names itself is shown to it again, so nothing odd is taken. */
function originOf(request: Request): string {
  const host: string | undefined = request.host
  if (host === undefined || !PLAIN_HOST.test(host)) return USUAL_ORIGIN
  return `${request.protocol === 'https' ? 'https' : 'http'}://${host}`
}
