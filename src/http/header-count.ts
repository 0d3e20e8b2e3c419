/** How often a header was sent. Node keeps only the first of some headers. */
export function countHeader(rawHeaders: readonly string[], lowerCaseName: string): number {
  let count = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length === lowerCaseName.length && name.toLowerCase() === lowerCaseName) count++
  }
  return count
}
