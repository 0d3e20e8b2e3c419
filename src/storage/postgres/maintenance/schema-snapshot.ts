import type { Session } from '../postgres-connections.ts'

/** Something that migrations make, such as `column users.id` with the definition `bigint not null`. */
export interface SchemaObject {
  /** The kind and the name. */
  readonly name: string
  /** The same on every release of PostgreSQL: no expressions, of which each prints its own form. */
  readonly definition: string
}

const SELECT_OBJECTS = `
  WITH tables AS (
    SELECT oid, relname FROM pg_class
    WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r' AND relname = ANY($1)
  ), columns AS (
    SELECT attrelid, attnum, attname FROM pg_attribute JOIN tables ON tables.oid = attrelid
    WHERE attnum > 0 AND NOT attisdropped
  )
  SELECT 'table ' || relname, '' FROM tables
  UNION ALL
  SELECT format('column %s.%s', relname, attname), concat_ws(' ', format_type(atttypid, atttypmod),
      CASE WHEN attnotnull THEN 'not null' END,
      CASE WHEN collname <> 'default' THEN 'collate ' || collname END,
      CASE WHEN atthasdef AND attgenerated = '' THEN 'default' END,
      CASE WHEN attgenerated <> '' THEN 'generated' END,
      CASE WHEN attidentity <> '' THEN 'identity' END)
    FROM pg_attribute JOIN tables ON tables.oid = attrelid
      LEFT JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT 'constraint ' || conname, concat_ws(' ',
      CASE contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique' ELSE 'check' END, 'of', relname, '(' || (
        SELECT string_agg(attname, ', ' ORDER BY place)
        FROM unnest(conkey) WITH ORDINALITY AS key (attnum, place)
          JOIN columns ON attrelid = conrelid AND columns.attnum = key.attnum) || ')')
    FROM pg_constraint JOIN tables ON tables.oid = conrelid WHERE contype IN ('p', 'u', 'c')
  UNION ALL
  SELECT 'index ' || index.relname, concat_ws(' ', CASE WHEN indisunique THEN 'unique' END, 'on', tables.relname, '(' || (
        SELECT string_agg(coalesce(attname, 'expression'), ', ' ORDER BY place)
        FROM unnest(indkey::int2[]) WITH ORDINALITY AS key (attnum, place)
          LEFT JOIN columns ON attrelid = indrelid AND columns.attnum = key.attnum) || ')',
      CASE WHEN indpred IS NOT NULL THEN 'partial' END)
    FROM pg_index JOIN tables ON tables.oid = indrelid JOIN pg_class AS index ON index.oid = indexrelid
  UNION ALL
  SELECT 'trigger ' || tgname, concat_ws(' ', 'of', relname, 'type', tgtype, 'enabled', tgenabled,
      'calls', proname, tgoldtable, tgnewtable)
    FROM pg_trigger JOIN tables ON tables.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE NOT tgisinternal
  UNION ALL
  SELECT 'sequence ' || relname, concat_ws(' ', 'by', seqincrement, 'to', seqmax,
      CASE WHEN seqcycle THEN 'cycles' END)
    FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
    WHERE relnamespace = quote_ident(current_schema())::regnamespace
  UNION ALL
  SELECT 'function ' || proname, concat_ws(' ', 'takes (' || pg_get_function_identity_arguments(oid) || ')',
      'returns', format_type(prorettype, NULL), CASE WHEN prosecdef THEN 'runs as its owner' END,
      CASE WHEN EXISTS (SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'search\\_path=%')
        THEN 'has a search path' END)
    FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace AND prokind = 'f'`

const SELECT_SOURCES = `
  SELECT proname, prosrc FROM pg_proc
  WHERE pronamespace = quote_ident(current_schema())::regnamespace AND proname = ANY($1)`

/** What a database has in the schema of these tables. Other programs may have objects there too. */
export async function readSchema(
  session: Session,
  tables: readonly string[],
): Promise<readonly SchemaObject[]> {
  const rows = await session.query<[string, string]>({ text: SELECT_OBJECTS }, [tables])
  return rows.map(([name, definition]) => ({ name, definition }))
}

/** The bodies of functions by name, as the migrations have them. */
export async function readFunctionSources(
  session: Session,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  return new Map(await session.query<[string, string]>({ text: SELECT_SOURCES }, [names]))
}
