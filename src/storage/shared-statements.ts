/**
 * Runs statements that SQLite and PostgreSQL both understand, with the parameters `$1`, `$2`, … Each is one transaction. A
 * row is the values of its columns in their order: whole numbers are numbers, bytes are buffers.
 * Throws what calls of a `Storage` throw when it cannot be used.
 */
export interface SharedStatements {
  /** Runs a short statement that only reads. */
  read<R extends readonly unknown[]>(sql: string, values?: readonly unknown[]): Promise<R[]>
  /** Runs a statement that writes, and returns the rows that its RETURNING names. */
  write<R extends readonly unknown[]>(sql: string, values: readonly unknown[]): Promise<R[]>
}
