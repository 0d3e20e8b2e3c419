import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

/** The source of the client. */
export const CLIENT = fileURLToPath(new URL('../../client/create-client.ts', import.meta.url))

/** The client as JavaScript in one minified module, and what it imports. */
export async function bundleClient(): Promise<{ code: string; imports: readonly string[] }> {
  const bundle = await rolldown({ input: CLIENT })
  const { output } = await bundle.generate({ format: 'es', minify: true })
  const [{ code, imports, dynamicImports }] = output
  return { code, imports: [...imports, ...dynamicImports, ...output.slice(1).map(String)] }
}
