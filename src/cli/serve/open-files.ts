import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Config } from '../../config/settings.ts'
import { MANAGEMENT_CONNECTIONS } from './ports.ts'

/**
 * File descriptors for everything but connections: the database with its temporary files, the log, the event loop, a limits
 * file.
 */
const RESERVED_FILES = 64

/**
 * How many files this process may have open; `undefined` if the system does not say or sets no limit. This is the soft
 * limit. Node has already raised it to the hard limit at its start, so it cannot be raised any more.
 */
export function readOpenFilesLimit(): number | undefined {
  try {
    const [, limit] =
      /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    if (limit !== undefined) return Number(limit)
  } catch {
    // Only Linux has this file.
  }
  try {
    const printed = execFileSync('/bin/sh', ['-c', 'ulimit -n'], { encoding: 'utf8' })
    return /^\d+\s*$/.test(printed) ? Number(printed) : undefined
  } catch {
    return undefined
  }
}

/** How many connections of clients fit into `openFiles` files: at least 1, at most MAX_CONNECTIONS. */
export function limitConnections(
  { maxConnections, managementPort }: Pick<Config, 'maxConnections' | 'managementPort'>,
  openFiles = Infinity,
): number {
  const managementFiles = managementPort === undefined ? 0 : MANAGEMENT_CONNECTIONS
  return Math.min(maxConnections, Math.max(1, openFiles - RESERVED_FILES - managementFiles))
}
