import { DatabaseError } from 'pg'

/** Whether the server refused a row because of this constraint or index. */
export function violates(error: unknown, constraint: string): boolean {
  return (
    error instanceof DatabaseError &&
    error.code?.startsWith('23') === true &&
    error.constraint === constraint
  )
}

/** The SQLSTATE of an error of the server: https://www.postgresql.org/docs/current/errcodes-appendix.html */
export function sqlStateOf(error: unknown): string | undefined {
  return error instanceof DatabaseError ? error.code : undefined
}
