// Shows the interface of this service from its own OpenAPI document, and asks no other host for anything.

const dark = window.matchMedia('(prefers-color-scheme: dark)')
const show = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', show)
show()

window.SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#interface',
  deepLinking: true,
  // Folded: each operation shows the schemas that it uses.
  defaultModelsExpandDepth: 0,
  displayOperationId: true,
  tryItOutEnabled: true,
  // No badge of swagger.io: it would tell swagger.io where this service is.
  validatorUrl: null,
})
