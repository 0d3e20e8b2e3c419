import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of this project. */
export const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

/** The text of a file of this project, by its path from there. */
export function readProject(path: string): string {
  return readFileSync(join(PROJECT, path), 'utf8')
}

/** The blocks of code in a page. */
export function codeBlocks(text: string, language: string): string[] {
  const blocks = text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))
  return Array.from(blocks, ([, block = '']) => block)
}

export function firstBlock(text: string, language: string): string {
  return codeBlocks(text, language)[0] ?? ''
}
