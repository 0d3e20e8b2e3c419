import type { Endpoint } from './endpoints.ts'
import { HTML_TYPE, JSON_TYPE, parseAccept, qualityOf } from './negotiation.ts'

const PLACES = { users: '/users', health: '/livez', readiness: '/readyz' }

const DESCRIPTION =
  'User Records Service: create, list, read, update and delete users, as JSON over HTTP.'

const AS_JSON = JSON.stringify({ message: DESCRIPTION, ...PLACES })

const AS_HTML = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>User Records Service</title>
<h1>User Records Service</h1>
<p>${DESCRIPTION}</p>
<ul>
${Object.entries(PLACES)
  .map(([name, path]) => `<li><a href="${path}">${path}</a> ${name}</li>`)
  .join('\n')}
</ul>
</html>
`

/** `GET /` tells where everything else is: as a page to who likes HTML better, as JSON to all others. */
export const HOME: Endpoint = {
  method: 'get',
  path: '/',
  produces: [JSON_TYPE, HTML_TYPE],
  handle: ({ headers }) => {
    const preferences = parseAccept(headers.accept)
    const likesHtml = qualityOf(preferences, HTML_TYPE) > qualityOf(preferences, JSON_TYPE)
    return likesHtml
      ? { status: 200, body: AS_HTML, type: `${HTML_TYPE}; charset=utf-8` }
      : { status: 200, body: AS_JSON }
  },
}
