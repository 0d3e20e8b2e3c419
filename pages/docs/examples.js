function* parametersOf({ components, paths }) {
  yield* Object.values(components.parameters)
  for (const operations of Object.values(paths)) {
    for (const { parameters } of Object.values(operations)) yield* parameters
  }
}

/**
 * Swagger UI fills in the examples of parameters and sends them, such as a version that no user has. The example of an
 * optional parameter therefore moves into its description.
 */
export const optionalExamples = {
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
