import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

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
