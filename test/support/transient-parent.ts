import { statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'

const MEMORY = '/dev/shm'

const TMPFS = 0x01021994

const ENOUGH_BYTES = 4 * 1024 ** 3

/**
 * Where to make folders that need not outlive a loss of power. It is in memory if the machine has plenty of it: ext4 takes long
 * to make files right after others were deleted, as each new database of PostgreSQL does.
 */
export function transientParent(): string {
  return hasMemory() ? MEMORY : tmpdir()
}

function hasMemory(): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(MEMORY)
    return type === TMPFS && Math.min(bavail * bsize, freemem()) >= ENOUGH_BYTES
  } catch {
    return false
  }
}
