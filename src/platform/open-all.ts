/** What is to be called at the end, the last first. */
export type Closers = (() => unknown)[]

/**
 * Opens something of several parts, each of which adds what closes it. `close` closes them, the last first. If a part cannot be
 * opened, those before it are closed.
 */
export async function openAll<T extends object>(open: (closers: Closers) => Promise<T>) {
  const closers: Closers = []
  const close = async (): Promise<void> => {
    for (const end of closers.toReversed()) await end()
  }
  try {
    return { ...(await open(closers)), close }
  } catch (error) {
    await close()
    throw error
  }
}
