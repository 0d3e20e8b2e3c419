import type { Endpoint } from './endpoints.ts'
import { HTML_TYPE, JSON_TYPE, parseAccept, qualityOf } from './negotiation.ts'
import { ABOUT } from './openapi-endpoint.ts'
import { component } from './operation.ts'

const PLACES = { users: '/users', health: '/livez', readiness: '/readyz', openapi: '/openapi.json' }

const DESCRIPTION =
  'User Records Service: create, list, read, update and delete users, as JSON over HTTP.'

const HOME_FIELDS = { message: DESCRIPTION, ...PLACES }

const AS_JSON = JSON.stringify(HOME_FIELDS)

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
  operation: () => ({
    id: 'showHome',
    tag: ABOUT,
    summary: 'Where everything is',
    description:
      'The paths of the service: as a page to who likes HTML better, as JSON to all others.',
    answers: {
      200: {
        description: 'What this is and where its paths are.',
        content: {
          [JSON_TYPE]: {
            schema: component('schemas', 'Home', {
              type: 'object',
              properties: Object.fromEntries(
                Object.keys(HOME_FIELDS).map(name => [name, { type: 'string' }]),
              ),
              required: Object.keys(HOME_FIELDS),
            }),
            examples: { home: { summary: 'The paths', value: HOME_FIELDS } },
          },
          [HTML_TYPE]: {
            schema: { type: 'string' },
            examples: { page: { summary: 'A page', value: AS_HTML } },
          },
        },
      },
    },
  }),
  handle: ({ headers }) => {
    const preferences = parseAccept(headers.accept)
    const likesHtml = qualityOf(preferences, HTML_TYPE) > qualityOf(preferences, JSON_TYPE)
    return likesHtml
      ? { status: 200, body: AS_HTML, type: `${HTML_TYPE}; charset=utf-8` }
      : { status: 200, body: AS_JSON }
  },
}
