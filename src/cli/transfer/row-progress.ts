import type { ImportRecord } from '../../users/transfer/import-rows.ts'

/** The progress of an import, measured as a share of its file. */
export interface RowProgress {
  /** The records. The import must read them from here, because reading them updates the progress. */
  readonly records: AsyncIterable<readonly ImportRecord[]>
  /**
   * An estimate of the share of the file, from 0 to 1, that its first `rows` rows take. `undefined` if the length of
   * the file is unknown, or no row has been read.
   */
  shareOf(rows: number): number | undefined
}

/**
 * Counts rows while they are read. `readShare` returns the share of the file that has been read, which is more than the
 * rows that are done.
 */
export function followRows(
  records: AsyncIterable<readonly ImportRecord[]>,
  readShare: () => number | undefined,
): RowProgress {
  let from = { rows: 0, share: 0 }
  let to: { readonly rows: number; readonly share: number | undefined } = from

  async function* followed(): AsyncGenerator<readonly ImportRecord[]> {
    for await (const some of records) {
      if (some.length > 0) {
        from = { rows: to.rows, share: to.share ?? 0 }
        to = { rows: from.rows + some.length, share: readShare() }
      }
      yield some
    }
  }

  return {
    records: followed(),
    shareOf: rows => {
      if (to.share === undefined || to.rows === from.rows) return undefined
      const part = (rows - from.rows) / (to.rows - from.rows)
      return from.share + part * (to.share - from.share)
    },
  }
}
