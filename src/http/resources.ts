import type { Application, Request } from 'express'
import type { Endpoint } from './endpoints.ts'

/** The `resource` of errors if no endpoint names another. */
export const DEFAULT_RESOURCE = 'Request'

/** No other code that is given the request can collide with this property. */
const RESOURCE = Symbol('resource')

/** What the path of a request is about, by `nameResources` of its application. */
export function resourceOf(request: Request): string {
  return (request as { [RESOURCE]?: string })[RESOURCE] ?? DEFAULT_RESOURCE
}

/**
 * Lets `resourceOf` name what a path is about: the `resource` of the endpoints at it or above it. Works for every request,
 * also for one that the application has not seen yet, or whose path has no route.
 */
export function nameResources(app: Application, endpoints: readonly Endpoint[]): void {
  const resources = new Map<string, string>()
  for (const { path, resource } of endpoints) {
    if (resource !== undefined) resources.set(path.split('/{')[0] as string, resource)
  }
  const { request: prototype } = app as unknown as { readonly request: Request }
  Object.defineProperty(prototype, RESOURCE, {
    configurable: true,
    get(this: Request): string {
      for (const [root, resource] of resources) {
        if (isAtOrBelow(this.path, root)) return resource
      }
      return DEFAULT_RESOURCE
    },
  })
}

function isAtOrBelow(path: string, root: string): boolean {
  return path.startsWith(root) && (path.length === root.length || path[root.length] === '/')
}
