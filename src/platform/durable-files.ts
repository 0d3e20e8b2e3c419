import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'

/**
 * Creates a folder and its missing parents with mode 700, and syncs their names to disk.
 * Creates one level at a time: `mkdirSync` with `recursive` never returns where no folder can be created, as in /proc.
 */
export function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have created it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  syncFolder(dirname(path))
}

/**
 * Syncs the names in a folder to disk. SQLite does this for the names of its files, but not for the name of their folder.
 * Ignores a folder that cannot be synced, as on Windows; SQLite does the same.
 */
export function syncFolder(path: string): void {
  try {
    sync(path, 'r')
  } catch {}
}

/** Syncs the content of a file to disk. */
export function syncFile(path: string): void {
  sync(path, 'r+')
}

function sync(path: string, flags: 'r' | 'r+'): void {
  const file = openSync(path, flags)
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Whether two paths lead to the same existing file. */
export function isSameFile(path: string, other: string): boolean {
  const [file, otherFile] = [path, other].map(at => statSync(at, { throwIfNoEntry: false }))
  return file !== undefined && file.ino === otherFile?.ino && file.dev === otherFile.dev
}

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
