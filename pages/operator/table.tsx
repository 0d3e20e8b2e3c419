import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

/** The meaning of a cell, which decides its color: `bad` is a fault of the service, `warn` one of clients, `dry` a dry run. */
export type Tone = 'zero' | 'bad' | 'warn' | 'dry' | undefined

export interface Column<Row> {
  readonly label: string
  /** `name` heads its row, `number` is aligned to the right, `action` holds a button. */
  readonly kind: 'name' | 'number' | 'text' | 'action'
  readonly cell: (row: Row) => ComponentChildren
  readonly tone?: (row: Row) => Tone
}

export interface TableProps<Row> {
  readonly id: string
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  /** `undefined` before the first answer. */
  readonly rows: readonly Row[] | undefined
  readonly keyOf: (row: Row) => string
  /** What is shown in place of rows. */
  readonly empty: string
}

/** A table, or a line that says why there is none. */
export function Table<Row>({ id, caption, columns, rows = [], keyOf, empty }: TableProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null)
  const [scrolls, setScrolls] = useState(false)
  useLayoutEffect(() => {
    const { scrollHeight = 0, clientHeight = 0 } = scroller.current ?? {}
    setScrolls(scrollHeight > clientHeight + 1)
  })
  if (rows.length === 0) {
    return (
      <div id={id}>
        <p class="empty">{empty}</p>
      </div>
    )
  }
  // Only what scrolls needs to be reached by the keyboard.
  const region = scrolls && { tabIndex: 0, role: 'region' as const, 'aria-label': caption }
  return (
    <div id={id}>
      <div class="scroller" ref={scroller} {...region}>
        <table>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {columns.map(({ label, kind }) => (
                <th key={label} scope="col" class={kind}>
                  {kind === 'action' ? <span class="unseen">{label}</span> : label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(row => (
              <tr key={keyOf(row)}>
                {columns.map(({ label, kind, cell, tone }) => {
                  const Cell = kind === 'name' ? 'th' : 'td'
                  const scope = kind === 'name' ? { scope: 'row' as const } : {}
                  const meaning = { 'data-label': label, 'data-tone': tone?.(row) }
                  return (
                    <Cell key={label} class={kind} {...scope} {...meaning}>
                      {cell(row)}
                    </Cell>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}

/** A column of numbers. */
export function numbers<Row>(
  label: string,
  cell: (row: Row) => string,
  tone?: (row: Row) => Tone,
): Column<Row> {
  return { label, kind: 'number', cell, ...(tone && { tone }) }
}

/** The tone of a number that is unusual unless it is 0. */
export function toneOf(count: number | undefined, unusual: 'bad' | 'warn' | 'dry'): Tone {
  return count === undefined || count === 0 ? 'zero' : unusual
}
