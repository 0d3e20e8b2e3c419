import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * With mode 700, as its missing parents, and on disk.
 * Step by step, because Node's own way never ends where a folder that is there takes no other, as in /proc.
 */
export function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process that starts may have been quicker.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  syncFolder(dirname(path))
}

/**
 * Puts the names in a folder on disk: those of its own files SQLite takes care of, that of their folder it does not.
 * Where a folder cannot be synced, as on Windows, there is nothing to be done, and SQLite goes on as well.
 */
export function syncFolder(path: string): void {
  try {
    sync(path, 'r')
  } catch {}
}

/** Puts on disk what is in a file. */
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

/** Whether two paths lead to one file that is there. */
export function isSameFile(path: string, other: string): boolean {
  const [file, otherFile] = [path, other].map(at => statSync(at, { throwIfNoEntry: false }))
  return file !== undefined && file.ino === otherFile?.ino && file.dev === otherFile.dev
}
