import type { Request } from 'express'

/**
 * Finds the template of a request's path among `templates`, such as `/users/{id}`. It matches paths as the router does, but
 * before the router.
 */
export function createTemplateFinder<T extends string>(
  templates: Iterable<T>,
): (request: Request) => T | undefined {
  const known = [...new Set(templates)].map(template => ({ template, parts: partsOf(template) }))
  return request => {
    const sent = pathOf(request).split('/')
    return known.find(({ parts }) => isMatch(parts, sent))?.template
  }
}

/** Parts between slashes; `undefined` for a parameter. */
type Parts = readonly (string | undefined)[]

function partsOf(template: string): Parts {
  return template.split('/').map(part => (part.startsWith('{') ? undefined : part))
}

function isMatch(parts: Parts, sent: readonly string[]): boolean {
  return (
    parts.length === sent.length &&
    parts.every((part, index) => (part === undefined ? sent[index] !== '' : part === sent[index]))
  )
}

function pathOf(request: Request): string {
  try {
    return request.path
  } catch {
    // A target such as http://[/ has no path.
    return request.url
  }
}
