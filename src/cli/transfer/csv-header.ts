import { OperatorError } from '../../errors.ts'
import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'

/** No row can be a user without these columns. */
const NEEDED_COLUMNS = ['name', 'email']

/** A file of something else may have thousands of columns. */
const MAX_SHOWN_COLUMNS = 20

const MAX_SHOWN_CHARS = 40

/** The names of the columns in lower case, without blanks around them. */
export function columnsOf(header: readonly string[]): readonly string[] {
  return header.map(field => field.trim().toLowerCase())
}

export function hasNeededColumns(header: readonly string[]): boolean {
  const columns = columnsOf(header)
  return NEEDED_COLUMNS.every(name => columns.includes(name))
}

/** The columns that a first line names. Throws `OperatorError` if they are not those of users. */
export function checkHeader(header: readonly string[]): readonly string[] {
  const columns = columnsOf(header)
  const missing = NEEDED_COLUMNS.filter(name => !columns.includes(name))
  if (missing.length > 0) throw new OperatorError([problemOf(header, missing)])
  const twice = columns.find((name, index) => columns.indexOf(name) !== index)
  if (twice !== undefined) {
    throw new OperatorError([`the first line names ${JSON.stringify(twice)} twice`])
  }
  return columns
}

function problemOf(header: readonly string[], missing: readonly string[]): string {
  // A row of data may hold a password, so it is not shown.
  if (header.some(field => field.includes('@'))) {
    return 'the first line holds an e-mail address, but it must name the columns, such as name,email'
  }
  const names = missing.map(name => JSON.stringify(name)).join(' and ')
  return `the first line does not name ${names}; it names ${describeHeader(header)}; known columns are ${IMPORT_COLUMNS.join(', ')}`
}

function describeHeader(header: readonly string[]): string {
  if (header.every(field => field === '')) return 'nothing'
  const some = header
    .slice(0, MAX_SHOWN_COLUMNS)
    .map(field => JSON.stringify(field.slice(0, MAX_SHOWN_CHARS)))
  const more = header.length - some.length
  return `${some.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
