import { OperatorError } from '../../errors.ts'
import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import type { CsvRow } from './csv-rows.ts'
import { TOO_LONG } from './format.ts'

/** The delimiters that are recognised, the most common first. */
const DELIMITERS = [',', ';', '\t']

/** A file of something else may have thousands of columns. */
const MAX_SHOWN_CHARS = 800

/** The delimiter with which a first line has the columns of users, otherwise the one that splits it into the most fields. */
export function recogniseDelimiter(line: string): string {
  const fieldsBy = (delimiter: string) => line.replaceAll('"', '').split(delimiter)
  const isHeader = (delimiter: string) => missingIn(columnsOf(fieldsBy(delimiter))).length === 0
  const [most] = DELIMITERS.toSorted((a, b) => fieldsBy(b).length - fieldsBy(a).length)
  return DELIMITERS.find(isHeader) ?? (most as string)
}

/** The columns that a first line names. Throws `OperatorError` if they are not those of users, or the line is too long. */
export function checkHeader({ fields: header }: CsvRow): readonly string[] {
  if (header === undefined) throw new OperatorError([`the first line ${TOO_LONG.problem}`])
  const columns = columnsOf(header)
  const missing = missingIn(columns)
  if (missing.length > 0) throw new OperatorError([problemOf(header, missing)])
  const twice = columns.find((name, index) => columns.indexOf(name) !== index)
  if (twice === undefined) return columns
  throw new OperatorError([`the first line names ${JSON.stringify(twice)} twice`])
}

function columnsOf(header: readonly string[]): readonly string[] {
  return header.map(field => field.trim().toLowerCase())
}

/** No row can be a user without these columns. */
function missingIn(columns: readonly string[]): readonly string[] {
  return ['name', 'email'].filter(name => !columns.includes(name))
}

function problemOf(header: readonly string[], missing: readonly string[]): string {
  // A row of data may hold a password, so it is not shown.
  if (header.some(field => field.includes('@'))) {
    return 'the first line holds an e-mail address, but it must name the columns, such as name,email'
  }
  const names = missing.map(name => JSON.stringify(name)).join(' and ')
  const shown = header
    .map(field => JSON.stringify(field))
    .join(', ')
    .slice(0, MAX_SHOWN_CHARS)
  const found = header.every(field => field === '') ? 'nothing' : shown
  return `the first line does not name ${names}; it names ${found}; known columns are ${IMPORT_COLUMNS.join(', ')}`
}
