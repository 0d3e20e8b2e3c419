/** The condition of a write that these versions pass. */
export const oneOf =
  (...versions: readonly string[]) =>
  (version: string) =>
    versions.includes(version)
