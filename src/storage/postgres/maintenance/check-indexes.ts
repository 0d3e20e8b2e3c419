import type { Connections } from '../postgres-connections.ts'
import { isDamage } from '../postgres-errors.ts'

/** Up to this many rows, the check includes that each row is in the index. With more it could take too long for one statement. */
const MAX_MATCHED_ROWS = 2_000_000

const SELECT_INDEXES = `
  SELECT indexrelid::int8, index.relname, indisvalid AND indisready AND indislive,
    amname = 'btree', greatest(owner.reltuples, 0)::int8
  FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid
    JOIN pg_class AS owner ON owner.oid = indrelid JOIN pg_am ON pg_am.oid = index.relam
  WHERE owner.relnamespace = quote_ident(current_schema())::regnamespace AND owner.relname = ANY($1)
  ORDER BY index.relname`

/** The function that checks an index, if the extension amcheck is there and this role may use it. */
const SELECT_CHECKER = `
  SELECT pg_proc.oid::regproc::text
  FROM pg_extension JOIN pg_proc ON pronamespace = extnamespace
  WHERE extname = 'amcheck' AND proname = 'bt_index_check' AND pronargs = 2
    AND has_function_privilege(pg_proc.oid, 'EXECUTE') AND has_schema_privilege(extnamespace, 'USAGE')`

type IndexRow = [oid: number, name: string, isValid: boolean, isBtree: boolean, rows: number]

const LONG = { isLong: true }

/** Faults of the indexes of some tables. Their pages are only read where the extension amcheck is installed. */
export async function findIndexFaults(
  connections: Connections,
  tables: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { indexes, checker } = await connections.read(async session => {
    const checkers = await session.query<[string]>({ text: SELECT_CHECKER })
    return {
      indexes: await session.query<IndexRow>({ text: SELECT_INDEXES }, [tables]),
      checker: checkers[0]?.[0],
    }
  }, LONG)
  const faults: string[] = []
  for (const [oid, name, isValid, isBtree, rows] of indexes) {
    signal.throwIfAborted()
    const damage = isValid && isBtree && checker ? await damageOf(oid, rows) : undefined
    if (!isValid) faults.push(`the index ${name} is not valid: run REINDEX INDEX ${name}`)
    else if (damage !== undefined) faults.push(`the index ${name} is damaged: ${damage}`)
  }
  return faults

  async function damageOf(oid: number, rows: number): Promise<string | undefined> {
    // The name comes from the catalogue, quoted where it needs to be.
    const text = `SELECT ${checker}($1::oid::regclass, $2)`
    try {
      await connections.read(
        session => session.query({ text }, [oid, rows <= MAX_MATCHED_ROWS]),
        LONG,
      )
      return undefined
    } catch (error) {
      // The cause of `storage_damaged`.
      const { cause } = error as Error
      if (isDamage(cause)) return (cause as Error).message
      throw error
    }
  }
}
