import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { afterAll, expect } from 'vitest'

/**
 * No test leaves a database open whose file is removed: SQLite knows files by their inode, and another test's file may get the same one.
 * Only Linux can tell.
 */
afterAll(() => {
  expect(openAndRemoved()).toEqual([])
})

const OPEN_FILES = '/proc/self/fd'

function openAndRemoved(): readonly string[] {
  if (!existsSync(OPEN_FILES)) return []
  return readdirSync(OPEN_FILES)
    .map(fd => targetOf(`${OPEN_FILES}/${fd}`))
    .filter(target => /\.db\b.* \(deleted\)$/.test(target))
}

/** Empty for the descriptor that listed the others, which is closed by now. */
function targetOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
