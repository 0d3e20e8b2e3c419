/** The user nobody of Linux: root may write to files of any mode. */
export const NOBODY = 65_534

export const isRoot = process.getuid?.() === 0

/** A user without the rights of root, for `run`, `spawnService` and `spawn`. */
export const owner: { readonly uid?: number; readonly gid?: number } = isRoot
  ? { uid: NOBODY, gid: NOBODY }
  : {}
