import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { refusing } from './database-refused.ts'

/** What SQLite puts beside a database. */
const COMPANIONS = ['-journal', '-wal', '-shm']

/** Of a name such as `users.db.1234-0a1b2c3d.partial`: the process that made it. */
const MADE_BY = /^\.(\d{1,10})-[0-9a-f]{8}\.partial(?:-journal|-wal|-shm)?$/

/**
 * What `work` makes of an empty file beside `path`, of mode 600, which is gone afterwards unless `work` has renamed it.
 */
export async function withPartialFile<T>(
  path: string,
  work: (partial: string) => Promise<T>,
): Promise<T> {
  const partial = partialNameOf(path)
  await refusing(() => closeSync(openSync(partial, 'wx', 0o600)), path)
  try {
    return await work(partial)
  } finally {
    for (const ending of ['', ...COMPANIONS]) rmSync(partial + ending, { force: true })
  }
}

/** A new name beside `path` for what is to take its place. */
export function partialNameOf(path: string): string {
  return `${path}.${process.pid}-${randomBytes(4).toString('hex')}.partial`
}

/** Takes away what processes that were killed have left beside `path`; to be called before there is one of this one. */
export function removeLeftovers(path: string): void {
  const folder = dirname(path)
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(basename(path))) continue
    const pid = Number(MADE_BY.exec(name.slice(basename(path).length))?.[1])
    if (pid > 0 && !isOfOther(pid)) rmSync(join(folder, name), { force: true })
  }
}

/** Whether a process of this number runs that is not this one. */
function isOfOther(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
