// Shows the interface of this service from its own OpenAPI document, and asks no other host for anything.

import { optionalExamples } from './examples.js'
import { interfacePage } from './interface-page.js'

const dark = window.matchMedia('(prefers-color-scheme: dark)')
const show = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', show)
show()

window.SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#interface',
  presets: [window.SwaggerUIBundle.presets.apis],
  plugins: [optionalExamples, interfacePage],
  layout: 'InterfaceLayout',
  deepLinking: true,
  displayOperationId: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  // No badge of swagger.io: it would tell swagger.io where this service is.
  validatorUrl: null,
})
