import { element, setAttribute, setText, syncChildren } from './dom.ts'

/** The meaning of a cell, which decides its color: `bad` is a fault of the service, `warn` one of clients, `dry` a dry run. */
export type Tone = 'zero' | 'bad' | 'warn' | 'dry' | undefined

export interface Column<T> {
  readonly label: string
  /** `name` heads its row, `number` is aligned to the right, `action` holds a button. */
  readonly kind: 'name' | 'number' | 'text' | 'action'
  readonly text?: (item: T) => string
  /** Fills a cell that holds more than text. Called once for each row. */
  readonly fill?: (cell: HTMLElement, item: T) => void
  readonly tone?: (item: T) => Tone
}

export interface TableOptions<T> {
  readonly caption: string
  readonly columns: readonly Column<T>[]
  readonly keyOf: (item: T) => string
  /** What is shown in place of rows. */
  readonly empty: string
}

/** The roles stand here because a narrow page shows rows as grids, which takes their meaning from elements of tables. */
export function createTable<T>(host: HTMLElement, options: TableOptions<T>) {
  const { caption, columns, keyOf, empty } = options
  const heads = columns.map(({ label, kind }) =>
    element(
      'th',
      { scope: 'col', role: 'columnheader', class: kind },
      kind === 'action' ? element('span', { class: 'unseen' }, label) : label,
    ),
  )
  const body = element('tbody', { role: 'rowgroup' })
  const nothing = element('p', { class: 'empty' }, 'No data yet')
  const table = element(
    'table',
    { role: 'table' },
    element('caption', { class: 'unseen' }, caption),
    element('thead', { role: 'rowgroup' }, element('tr', { role: 'row' }, ...heads)),
    body,
  )
  const scroller = element('div', { class: 'scroller' }, table)
  scroller.hidden = true
  host.append(scroller, nothing)

  function create(item: T): HTMLTableRowElement {
    const cells = columns.map(({ kind, label, fill }) => {
      const attributes = { class: kind, 'data-label': label }
      const cell =
        kind === 'name'
          ? element('th', { ...attributes, scope: 'row', role: 'rowheader' })
          : element('td', { ...attributes, role: 'cell' })
      fill?.(cell, item)
      return cell
    })
    return element('tr', { role: 'row' }, ...cells)
  }

  function update(row: HTMLElement, item: T): void {
    for (const [index, { text, tone }] of columns.entries()) {
      const cell = row.children[index]
      if (cell === undefined) continue
      if (text !== undefined) setText(cell, text(item))
      setAttribute(cell, 'data-tone', tone?.(item))
    }
  }

  return {
    update: (items: readonly T[]) => {
      syncChildren(body, items, { keyOf, create, update })
      scroller.hidden = items.length === 0
      nothing.hidden = items.length > 0
      setText(nothing, empty)
      // Only what scrolls needs to be reached by the keyboard.
      const scrolls = scroller.scrollHeight > scroller.clientHeight + 1
      setAttribute(scroller, 'tabindex', scrolls ? '0' : undefined)
      setAttribute(scroller, 'role', scrolls ? 'region' : undefined)
      setAttribute(scroller, 'aria-label', scrolls ? caption : undefined)
    },
  }
}

/** The tone of a number that is unusual unless it is 0. */
export function toneOf(count: number | undefined, unusual: 'bad' | 'warn' | 'dry'): Tone {
  return count === undefined || count === 0 ? 'zero' : unusual
}

/** The tone of a number that is usual. */
export function toneOfZero(count: number | undefined): Tone {
  return count === 0 ? 'zero' : undefined
}
