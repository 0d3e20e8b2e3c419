import type { CopiedRow } from '../../copy/database-copy.ts'

/** One array for each column, for `unnest`. */
export function columnsOf(rows: readonly CopiedRow[], count: number): unknown[][] {
  return Array.from({ length: count }, (_, column) => rows.map(row => row[column]))
}
