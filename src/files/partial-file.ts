import { randomBytes } from 'node:crypto'
import { readdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** The end of a name such as `users.db.1234-0a1b2c3d.partial`. 1234 is the process that created the file. */
const PARTIAL_SUFFIX = /^\.(\d{1,10})-[0-9a-f]{8}\.partial(?:-journal|-wal|-shm)?$/

/** A new name beside `path` for a file that will replace it. */
export function partialNameOf(path: string): string {
  return `${path}.${process.pid}-${randomBytes(4).toString('hex')}.partial`
}

/**
 * Removes the partial files that ended processes left beside `path`. Call it before this process creates one: files
 * with its own number are removed too, because an earlier process may have had that number.
 */
export function removeLeftovers(path: string): void {
  const folder = dirname(path)
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(basename(path))) continue
    const pid = Number(PARTIAL_SUFFIX.exec(name.slice(basename(path).length))?.[1])
    if (pid > 0 && !isOtherProcess(pid)) rmSync(join(folder, name), { force: true })
  }
}

/** Whether another process with this number is running. */
function isOtherProcess(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
