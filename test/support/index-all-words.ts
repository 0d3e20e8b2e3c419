import type { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { clearWords, createWordIndex } from '../../src/storage/sqlite/word-index.ts'

/** Makes the index of words right after users were written by SQL. */
export function indexAllWords(database: Database): void {
  clearWords(database)
  const index = createWordIndex(database)
  const addAll = database.transaction(() => {
    while (!index.addNext(10_000).isComplete);
  })
  addAll()
}
