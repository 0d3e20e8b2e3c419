import { realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Compacted, CompactTaskOptions } from '../../database-tasks.ts'
import { requireThere } from '../inspect-database.ts'
import { runInOwnProcess } from './own-process.ts'

export interface CompactOptions extends CompactTaskOptions {
  readonly path: string
}

/**
 * Returns the free pages of a database to the file system. The file keeps its inode, permissions and journal mode. Throws
 * `UnusableDatabase`, for example while another process has it open. The users stay the same, also if this process is killed.
 */
export async function compactDatabase(options: CompactOptions): Promise<Compacted> {
  requireThere(options.path)
  const path = realpathSync(options.path)
  return runInOwnProcess<Compacted>({
    program: 'compact-process',
    path,
    // SQLite's temporary file holds users, so it belongs on the disk of the database; /tmp may also be in memory.
    environment: { SQLITE_TMPDIR: dirname(path), ...options.environment },
    signal: options.signal,
    onTick: () => options.onProgress({ step: 'compact' }),
  })
}
