// Shows the interface of this service from its own OpenAPI document, and asks no other host for anything.

const dark = window.matchMedia('(prefers-color-scheme: dark)')
const show = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', show)
show()

const spec = await (await fetch('openapi.json')).json()
for (const item of Object.values(spec.paths)) {
  for (const operation of Object.values(item)) operation.responses = merge(operation.responses)
}

window.SwaggerUIBundle({
  spec,
  // What the spec refers to, such as the server, is relative to it.
  url: new URL('openapi.json', document.baseURI).href,
  dom_id: '#interface',
  deepLinking: true,
  // Folded: each operation shows the schemas that it uses.
  defaultModelsExpandDepth: 0,
  displayOperationId: true,
  tryItOutEnabled: true,
  // No badge of swagger.io: it would tell swagger.io where this service is.
  validatorUrl: null,
})

/**
 * One response for all errors of the client and one for those of the service, with a choice of examples: each status of its own
 * would fill half a screen.
 */
function merge(responses) {
  const { default: otherwise, ...others } = responses
  const merged = {}
  for (const [status, described] of Object.entries(others)) {
    const response = spec.components.responses[described.$ref?.split('/').at(-1)] ?? described
    const isError = /^[45]/.test(status)
    const key = isError ? `${status[0]}XX` : status
    merged[key] = isError ? withError(merged[key], status, response) : response
  }
  return otherwise ? { ...merged, default: { description: otherwise.description } } : merged
}

function withError({ description = '', content } = {}, status, error) {
  const { schema, examples } = error.content['application/json']
  const all = { ...content?.['application/json'].examples, ...examples }
  return {
    description: description + error.description.replaceAll(/^- /gm, `- ${status} `),
    content: { 'application/json': { schema, examples: all } },
  }
}
