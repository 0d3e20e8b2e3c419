import { hash } from 'node:crypto'
import type { CopiedRow } from './copied-tables.ts'

/** A checksum of a table, whatever the order of its rows: engines sort some texts differently. */
export interface RowChecksum {
  add(rows: readonly CopiedRow[]): void
  readonly rows: number
  /** In hexadecimal. */
  digest(): string
}

/** The SHA-256 of each row as JSON, combined by exclusive or. A table has no two equal rows that would cancel out. */
export function createRowChecksum(): RowChecksum {
  const sum = Buffer.alloc(32)
  let count = 0
  return {
    add: rows => {
      for (const row of rows) {
        const digest = hash('sha256', JSON.stringify(row.map(inJson)), 'buffer')
        for (let at = 0; at < 32; at += 4) {
          sum.writeInt32LE(sum.readInt32LE(at) ^ digest.readInt32LE(at), at)
        }
      }
      count += rows.length
    },
    get rows() {
      return count
    },
    digest: () => sum.toString('hex'),
  }
}

function inJson(value: CopiedRow[number]): string | number | null {
  return Buffer.isBuffer(value) ? value.toString('hex') : value
}
