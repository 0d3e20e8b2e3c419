import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** In a stack trace: the URL without its query, and the line. */
const IN_MODULE = /(file:\/\/\/[^\s)?]*?)(?:\?[^\s):]*)?:(\d+)(?::\d+)?\)?$/m

/** In the first lines that Node prints about wrong syntax. */
const PRINTED_LINE = /:(\d+)$/m

/** File and line in the module that made the import of `path` fail, as in `limits.mjs:3`, if they can be found. */
export async function placeInModule(path: string, error: unknown): Promise<string | undefined> {
  if (!(error instanceof Error)) return undefined
  const [, url, line] = IN_MODULE.exec(error.stack ?? '') ?? []
  if (url !== undefined) return `${shorten(fileURLToPath(url))}:${line}`
  if (!(error instanceof SyntaxError)) return undefined
  const wrongLine = await lineOfWrongSyntax(path)
  return wrongLine === undefined ? undefined : `${shorten(path)}:${wrongLine}`
}

/** The error of an import does not say where the syntax is wrong; `node --check` prints it. */
async function lineOfWrongSyntax(path: string): Promise<string | undefined> {
  const text = await readFile(path)
  const looking = promisify(execFile)(process.execPath, ['--input-type=module', '--check'])
  looking.child.stdin?.on('error', () => {}).end(text)
  return looking.then(
    () => undefined,
    ({ stderr }: { readonly stderr?: string }) => PRINTED_LINE.exec(stderr ?? '')?.[1],
  )
}

function shorten(path: string): string {
  const fromHere = relative('.', path)
  return fromHere.startsWith('..') ? path : fromHere
}
