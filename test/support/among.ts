/** The precondition of a write that the user has one of these versions. */
export function among(...versions: readonly string[]): (version: string) => boolean {
  return version => versions.includes(version)
}
