import type { TaskOptions } from '../../database-tasks.ts'
import { requireThere } from '../inspect-database.ts'
import type { Examination } from './find-faults.ts'
import { runInOwnProcess } from './own-process.ts'

/**
 * Checks a whole database, which may be in use. Takes some seconds for a million users.
 * Throws `UnusableDatabase` for a file that cannot be read or does not belong to this service.
 */
export async function checkDatabase(
  path: string,
  { onProgress, signal }: TaskOptions,
): Promise<Examination> {
  requireThere(path)
  return runInOwnProcess<Examination>({
    program: 'check-process',
    path,
    signal,
    onTick: () => onProgress({ step: 'check' }),
  })
}

/** Compares the index of words of a sound database with its users. Returns faults. */
export async function checkWords(
  path: string,
  { onProgress, signal }: TaskOptions,
): Promise<readonly string[]> {
  return runInOwnProcess<readonly string[]>({
    program: 'check-words-process',
    path,
    signal,
    onTick: () => onProgress({ step: 'check' }),
  })
}
