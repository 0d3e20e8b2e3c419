// Shows the interface of this service as its own document describes it, and asks nobody else for anything.

const dark = window.matchMedia('(prefers-color-scheme: dark)')
const show = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', show)
show()

function* parametersOf({ components, paths }) {
  yield* Object.values(components.parameters)
  for (const { parameters = [], ...operations } of Object.values(paths)) {
    yield* parameters
    for (const operation of Object.values(operations)) yield* operation.parameters
  }
}

/**
 * Swagger UI fills in the examples of parameters and sends them, such as a version that no user has. Of what may be left
 * out, the example is told instead.
 */
const tellExamples = {
  statePlugins: {
    spec: {
      wrapActions: {
        updateJsonSpec: update => document => {
          for (const parameter of parametersOf(document)) {
            const { required, description, example } = parameter
            if (required || example === undefined) continue
            parameter.description = `${description} Such as \`${example}\`.`
            delete parameter.example
          }
          update(document)
        },
      },
    },
  },
}

window.SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#interface',
  presets: [window.SwaggerUIBundle.presets.apis],
  plugins: [tellExamples],
  layout: 'BaseLayout',
  deepLinking: true,
  displayOperationId: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  // A badge of swagger.io, which would hear where this service is.
  validatorUrl: null,
})
