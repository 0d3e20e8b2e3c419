import type { ComponentChildren } from 'preact'

export interface Column<Row> {
  readonly label: string
  /** `name` heads its row, `number` is aligned to the right. */
  readonly kind: 'name' | 'number' | 'text'
  readonly cell: (row: Row) => ComponentChildren
  /** Of the rows, if it is that of this column. */
  readonly order?: 'ascending' | 'descending' | undefined
  /** Sorts the rows by this column. */
  readonly onSort?: () => void
}

export interface TableProps<Row> {
  /** That of its panel, whose heading names the table. */
  readonly id: string
  readonly columns: readonly Column<Row>[]
  /** `undefined` before the first answer. */
  readonly rows: readonly Row[] | undefined
  readonly keyOf: (row: Row) => string
  /** What is shown in place of rows. */
  readonly empty: string
}

/** A table, or a line that says why there is none. */
export function Table<Row>({ id, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows === undefined || rows.length === 0) {
    return (
      <div class="faint" id={id}>
        {rows !== undefined && empty}
      </div>
    )
  }
  // The keyboard scrolls only what can have the focus.
  const group = { tabIndex: 0, role: 'group' as const, 'aria-labelledby': `${id}-title` }
  return (
    <div class="scroller" id={id} {...group}>
      <table>
        <thead>
          <tr>
            {columns.map(({ label, kind, order, onSort }) => (
              <th key={label} scope="col" class={kind} aria-sort={order}>
                {onSort && (
                  <button type="button" class="sort" onClick={onSort}>
                    {label}
                  </button>
                )}
                {!onSort && label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={keyOf(row)}>
              {columns.map(({ label, kind, cell }) =>
                kind === 'name' ? (
                  <th key={label} scope="row">
                    {cell(row)}
                  </th>
                ) : (
                  <td key={label} class={kind} data-label={label}>
                    {cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A column of numbers. */
export function numbers<Row>(label: string, cell: (row: Row) => string): Column<Row> {
  return { label, kind: 'number', cell }
}
