import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of this project. */
export const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

/** The text of a file of this project, by its path from there. */
export function readProject(path: string): string {
  return readFileSync(join(PROJECT, path), 'utf8')
}
