import { readFile } from 'node:fs/promises'

/** The output of `scripts/build-pages.mjs`, a folder for each page. The path is the same from `src` and from `dist`. */
const DIST = new URL('../../../dist/', import.meta.url)

/** Reads a file of a page on its first request, and keeps it. A failed read is tried again. */
export function createPageFiles(folder: string): (path: string) => Promise<Buffer> {
  const files = new Map<string, Promise<Buffer>>()
  return path => {
    const known = files.get(path)
    if (known !== undefined) return known
    const reading = readFile(new URL(`${folder}/${path}`, DIST))
    files.set(path, reading)
    reading.catch(() => files.delete(path))
    return reading
  }
}

/** The page with all its links below `baseUrl`, where another application has mounted the service. */
export function withLinksBelow(baseUrl: string, html: string): string {
  const base = escapeHtml(baseUrl)
  return html.replaceAll(/(?<= (?:href|src)=")(?=\/)/g, () => base)
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}
