import { hash } from 'node:crypto'
import { nextTurn } from '../../timers.ts'
import { UnusableDatabase } from '../unusable-database.ts'
import {
  COPIED_TABLES,
  COUNTED_TABLES,
  type CopiedRow,
  type CopiedTable,
  USERS,
} from './copied-tables.ts'
import type { CopySource, CopyTarget } from './copy-ends.ts'

export interface CopyProgress {
  readonly step: 'copy' | 'verify'
  readonly users: number
  readonly totalUsers: number
}

export interface CopyOptions {
  readonly source: CopySource
  readonly target: CopyTarget
  readonly onProgress?: (progress: CopyProgress) => void
  /** Its reason is thrown between two chunks. */
  readonly signal?: AbortSignal
  readonly chunkRows?: number
}

const CHUNK_ROWS = 5000

/**
 * Copies one state of `source` into `target` and compares all rows of both. The target must be empty, or that of an
 * interrupted copy, which starts over. Throws `UnusableDatabase`, and the reason of `signal`.
 */
export async function copyDatabase(options: CopyOptions) {
  const { source, target, onProgress = () => {}, chunkRows = CHUNK_ROWS, signal } = options
  const totalUsers = await source.countUsers()
  const sums = COPIED_TABLES.map(sumsOf)

  async function readAll(
    step: CopyProgress['step'],
    end: Pick<CopySource, 'next'>,
    use?: CopyTarget['add'],
  ): Promise<void> {
    for (const { table, [step]: sum } of sums) {
      for (;;) {
        // An engine in this process does not give way to signals by itself.
        await nextTurn()
        signal?.throwIfAborted()
        const rows = await end.next(table, chunkRows)
        if (rows.length === 0) break
        await use?.(table, rows)
        sum.add(rows)
        if (table === USERS) onProgress({ step, users: sum.rows(), totalUsers })
      }
    }
  }

  await target.begin()
  await readAll('copy', source, target.add)
  const lastId = await source.lastId()
  await target.complete(lastId)
  await readAll('verify', target)
  sums.forEach(requireEqual)
  if ((await target.lastId()) < lastId) throw differs('it would give out used ids again')
  await target.commit()
  const counted = sums.filter(({ table }) => COUNTED_TABLES.includes(table))
  return {
    tables: counted.map(({ table: { name, label }, copy }) => ({ name, label, rows: copy.rows() })),
    lastId,
    /** SHA-256 over all rows of these tables, in hexadecimal. */
    checksum: hash(
      'sha256',
      counted.map(({ copy }) => `${copy.rows()} ${copy.digest()}\n`).join(''),
    ),
  }
}

/** Checksums of what is read of a table: by `copy` from the source, by `verify` from the target. */
function sumsOf(table: CopiedTable) {
  return { table, copy: createRowChecksum(), verify: createRowChecksum() }
}

/**
 * A checksum of a table, whatever the order of its rows: engines sort some texts differently. The SHA-256 of each row as JSON,
 * combined by exclusive or. A table has no two equal rows that would cancel out.
 */
function createRowChecksum() {
  let sum = 0n
  let count = 0
  return {
    add: (rows: readonly CopiedRow[]) => {
      for (const row of rows) sum ^= BigInt(`0x${hash('sha256', JSON.stringify(row.map(inJson)))}`)
      count += rows.length
    },
    rows: () => count,
    /** In hexadecimal. */
    digest: () => sum.toString(16).padStart(64, '0'),
  }
}

function inJson(value: CopiedRow[number]): string | number | null {
  return Buffer.isBuffer(value) ? value.toString('hex') : value
}

function requireEqual({ table: { label }, copy, verify }: ReturnType<typeof sumsOf>): void {
  if (verify.rows() !== copy.rows()) {
    throw differs(`it has ${verify.rows()} ${label} instead of ${copy.rows()}`)
  }
  if (verify.digest() !== copy.digest()) {
    throw differs(`its ${label} differ from those of the source`)
  }
}

/** What to do about a target that is not equal to its source. `how` is a clause about the target. */
function differs(how: string): UnusableDatabase {
  return new UnusableDatabase(
    `after the copy ${how}: make sure that no other program writes to it, and run \`copy\` again`,
  )
}
