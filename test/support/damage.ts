import { closeSync, openSync, writeSync } from 'node:fs'

export const PAGE_BYTES = 4096

/** Writes `text` over and over into pages of a database file, of which the first is 0. */
export function overwritePages(
  path: string,
  text: string,
  { from, to = from + 1 }: { from: number; to?: number },
) {
  const file = openSync(path, 'r+')
  const bytes = (to - from) * PAGE_BYTES
  writeSync(file, Buffer.alloc(bytes, text), 0, bytes, from * PAGE_BYTES)
  closeSync(file)
}
