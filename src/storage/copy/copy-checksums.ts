import { hash } from 'node:crypto'
import { UnusableDatabase } from '../unusable-database.ts'
import { createRowChecksum, type RowChecksum } from './row-checksum.ts'

/** The checksums of all tables but that of the signing keys. */
export interface CopyChecksums {
  readonly users: RowChecksum
  readonly idempotencyKeys: RowChecksum
  readonly bans: RowChecksum
  readonly apiKeys: RowChecksum
}

const TABLES = {
  users: 'users',
  idempotencyKeys: 'idempotency keys',
  bans: 'bans',
  apiKeys: 'API keys',
} as const

export function createCopyChecksums(): CopyChecksums {
  return {
    users: createRowChecksum(),
    idempotencyKeys: createRowChecksum(),
    bans: createRowChecksum(),
    apiKeys: createRowChecksum(),
  }
}

/** Throws `UnusableDatabase` for the first table whose number of rows or checksum differs from the source. */
export function requireEqual(target: CopyChecksums, source: CopyChecksums): void {
  for (const [key, name] of Object.entries(TABLES)) {
    const [found, expected] = [
      target[key as keyof typeof TABLES],
      source[key as keyof typeof TABLES],
    ]
    if (found.rows !== expected.rows) {
      throw differs(`it has ${found.rows} ${name} instead of ${expected.rows}`)
    }
    if (found.digest() !== expected.digest())
      throw differs(`its ${name} differ from those of the source`)
  }
}

/** What to do about a target that is not equal to its source. `how` is a clause about the target. */
export function differs(how: string): UnusableDatabase {
  return new UnusableDatabase(
    `after the copy ${how}: make sure that no other program writes to it, and run \`copy\` again`,
  )
}

/** One checksum for all tables, in hexadecimal. */
export function digestOf(sums: CopyChecksums): string {
  return hash(
    'sha256',
    Object.values(sums)
      .map(sum => `${sum.rows} ${sum.digest()}\n`)
      .join(''),
  )
}
