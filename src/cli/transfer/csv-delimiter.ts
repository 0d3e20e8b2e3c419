import { hasNeededColumns } from './csv-header.ts'
import { createCsvParser } from './csv-rows.ts'

/** The delimiters that are recognised, the most common first. */
const DELIMITERS = [',', ';', '\t']

/**
 * The delimiter of a file that begins with this text: the one with which its first line has the columns of users, otherwise
 * the one that splits this line into the most fields. `undefined` while the end of the first line is missing.
 */
export function recogniseDelimiter(
  text: string,
  { isWhole }: { readonly isWhole: boolean },
): string | undefined {
  const headers = DELIMITERS.map(delimiter => headerOf(text, delimiter, isWhole))
  if (headers.includes(undefined)) return undefined
  const columns = headers.map(header =>
    hasNeededColumns(header ?? []) ? Number.POSITIVE_INFINITY : (header?.length ?? 0),
  )
  return DELIMITERS[columns.indexOf(Math.max(...columns))]
}

/** The fields of the first line, or none if it cannot be parsed. `undefined` while its end is missing. */
function headerOf(
  text: string,
  delimiter: string,
  isWhole: boolean,
): readonly string[] | undefined {
  const parser = createCsvParser(delimiter)
  const rows = [...parser.push(text), ...(isWhole ? parser.end() : [])]
  if (rows[0] !== undefined) return rows[0].fields ?? []
  return isWhole || parser.fault() !== undefined ? [] : undefined
}
