import { inject } from 'vitest'

export type EngineName = 'sqlite' | 'postgres'

declare module 'vitest' {
  interface ProvidedContext {
    engine: EngineName
  }
}

/** The storage engine of the services that this test opens. The projects in `vitest.config.ts` set it. */
export const engine: EngineName = inject('engine') ?? 'sqlite'

/** What differs between the engines in a test that runs on each. */
export function byEngine<T>(values: Readonly<Record<EngineName, T>>): T {
  return values[engine]
}

/** Whether tests of one engine can run here. If not, prints what is skipped. */
export function isEngine(name: EngineName, tests: string): boolean {
  if (engine !== name) console.log(`skipped on ${engine}: ${tests}`)
  return engine === name
}
