import { ServiceError } from '../../errors.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { createWordIndex, FORGET_WORDS, type WordIndex } from './word-index.ts'

/**
 * What the writes of one transaction change in the index of words. It is written once, right before the commit: FTS5 writes
 * a tree of its own to the disk at each savepoint, and needs users in the order of their ids to fill one tree.
 */
export interface WordChanges {
  /** Notes that a user may be new, gone, or have other words. */
  note(id: number): void
  /** Writes what is noted. An index that cannot be written is to be built again, and the other writes stay. */
  apply(): void
  /** Forgets what is noted. */
  undo(): void
}

const DAMAGED = 'index of words is damaged, and is built again'

export function createWordChanges(
  database: Database,
  onWarning: (message: string, cause?: unknown) => void,
): WordChanges {
  const noted = new Set<number>()
  const savepoint = database.prepare('SAVEPOINT words')
  // FTS5 writes at a savepoint what it has kept until then.
  const flush = database.prepare('SAVEPOINT written_words')
  const rollback = database.prepare('ROLLBACK TO words')
  const release = database.prepare('RELEASE words')
  let index: WordIndex | undefined

  return {
    note: id => noted.add(id),
    undo: () => noted.clear(),
    apply: () => {
      if (noted.size === 0) return
      const ids = [...noted].sort((one, other) => one - other)
      noted.clear()
      savepoint.run()
      try {
        index ??= createWordIndex(database)
        index.renew(ids)
        flush.run()
      } catch (error) {
        if (isUnavailable(error) || !database.inTransaction) throw error
        rollback.run()
        database.exec(FORGET_WORDS)
        onWarning(DAMAGED, error)
      }
      release.run()
    },
  }
}

function isUnavailable(error: unknown): boolean {
  const translated = translateSqliteError(error)
  return translated instanceof ServiceError && translated.code === 'storage_unavailable'
}
