import { statSync } from 'node:fs'
import type { Database } from './sqlite-driver.ts'

/** How many connections this process has to each file, by device and inode. POSIX keeps locks of a file for the whole process. */
const connections = new Map<string, number>()

/**
 * Whether this process has a connection to a file. Closing any other handle to the file would drop the locks of that
 * connection: https://www.sqlite.org/howtocorrupt.html, 2.2.
 */
export function isOpenHere(path: string): boolean {
  return connections.has(keyOf(path) ?? '')
}

/** Counts a connection until it closes. */
export function countConnection(database: Database, path: string): void {
  const key = keyOf(path)
  if (key === undefined) return
  connections.set(key, (connections.get(key) ?? 0) + 1)
  const close = database.close.bind(database)
  database.close = () => {
    const others = (connections.get(key) ?? 1) - 1
    if (database.open && others > 0) connections.set(key, others)
    else if (database.open) connections.delete(key)
    return close()
  }
}

function keyOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && `${stats.dev}:${stats.ino}`
}
