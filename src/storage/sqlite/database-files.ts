import { readlinkSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { isSameFile } from '../../platform/durable-files.ts'
import type { StorageReport } from '../storage.ts'

/** The path of a database in the memory of the process. */
export const IN_MEMORY = ':memory:'

/** The suffixes of the files that SQLite keeps beside a database. */
export const COMPANIONS = ['-journal', '-wal', '-shm'] as const

/** Linux also reports a loop after this many links. */
const MAX_LINKS = 40

/** The path of a file that SQLite keeps beside a database, after all links are resolved. The file need not exist. */
export function companionOf(database: string, ending: (typeof COMPANIONS)[number]): string {
  return resolveLinks(database) + ending
}

/**
 * Whether a path leads to a database or to a file that SQLite keeps beside it, by any name or link. The file need not
 * exist: SQLite would treat one that appears there as its own.
 */
export function isFileOfDatabase(path: string, database: string): boolean {
  if (database === IN_MEMORY) return false
  const resolved = resolveLinks(path)
  return ['', ...COMPANIONS]
    .map(ending => resolveLinks(database) + ending)
    .some(own => own === resolved || isSameFile(own, path))
}

/** The absolute path without links, also of a file that does not exist. */
export function resolveLinks(path: string, links = MAX_LINKS): string {
  const absolute = resolve(path)
  try {
    return realpathSync(absolute)
  } catch {
    const folder = dirname(absolute)
    if (folder === absolute || links === 0) return absolute
    const target = targetOf(absolute)
    return target === undefined
      ? join(resolveLinks(folder, links), basename(absolute))
      : resolveLinks(resolve(resolveLinks(folder, links - 1), target), links - 1)
  }
}

function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch {
    return undefined
  }
}

/** The size of a file in bytes. A missing file has 0. */
export function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** The sizes of the files of a database. Nothing for one in memory, or while the file cannot be found. */
export function fileBytesOf(path: string): Pick<StorageReport, 'fileBytes'> {
  if (path === IN_MEMORY) return {}
  try {
    // Synchronous, because SQLite reads the same files in this thread, and a stat takes microseconds.
    return { fileBytes: { database: statSync(path).size, wal: bytesOf(companionOf(path, '-wal')) } }
  } catch {
    return {}
  }
}
