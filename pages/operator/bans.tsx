import { useEffect, useRef, useState } from 'preact/hooks'
import { BanForm } from './ban-form.tsx'
import { Dialog, Wrong } from './dialog.tsx'
import { formatCount, formatMoment, formatSpan } from './format.ts'
import type { PanelProps } from './page.tsx'
import { Facts, Panel } from './panel.tsx'
import { type Ban, type BanPage, fetchBans, liftBan } from './service.ts'
import { type Column, Table } from './table.tsx'

/** How often the list is asked for again while nothing seems to have changed. */
const REFRESH_MS = 10_000

/** Where the pages up to the one that is shown begin. */
type Pages = readonly (string | undefined)[]

const FIRST: Pages = [undefined]

/** The list of bans by pages, with a dialog to lift one and a form to add one. */
export function Bans({ view, actions }: PanelProps) {
  const [client, setClient] = useState('')
  const [pages, setPages] = useState(FIRST)
  const [page, setPage] = useState<BanPage>({ bans: [], next: undefined })
  const [changes, setChanges] = useState(0)
  const [lifting, setLifting] = useState<Ban>()
  const [isAdding, setAdding] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const now = view?.now ?? Date.now()
  const count = view?.status.bans
  const period = view && Math.floor(Date.parse(view.status.now) / REFRESH_MS)

  useEffect(() => {
    if (period === undefined) return
    let isNewest = true
    const show = (found: BanPage) => {
      // The last ban of a later page may have ended.
      if (found.bans.length === 0 && pages.length > 1) setPages(pages.slice(0, -1))
      else setPage(found)
    }
    fetchBans(client, pages.at(-1)).then(
      found => isNewest && show(found),
      error => isNewest && actions.explain(error),
    )
    return () => {
      isNewest = false
    }
  }, [client, pages, count, period, changes])

  const reload = () => setChanges(known => known + 1)

  function find(): void {
    setClient(input.current?.value.trim() ?? '')
    setPages(FIRST)
    reload()
  }

  function closeLifting(): void {
    setLifting(undefined)
    // Once the ban is lifted, the button that opened the dialog is gone.
    if (!document.activeElement?.closest('table')) document.getElementById('add-ban')?.focus()
  }

  const inForce = page.bans.filter(({ ends_at }) => Date.parse(ends_at) > now)
  const rules = view?.status.limits.rules.filter(({ type }) => type === 'ban') ?? []
  const button = (
    <button
      type="button"
      id="add-ban"
      disabled={rules.length === 0}
      title={view && rules.length === 0 ? 'No rule of the limits bans clients' : ''}
      onClick={() => setAdding(true)}
    >
      Add a ban…
    </button>
  )
  return (
    <Panel
      name="bans"
      title="Bans"
      note={count !== undefined && `${formatCount(count)} in force`}
      noteId="bans-count"
      button={button}
    >
      <search aria-label="Bans">
        <form
          class="filter"
          onSubmit={event => {
            event.preventDefault()
            find()
          }}
        >
          <label for="ban-client">Client</label>
          <input
            id="ban-client"
            type="search"
            autocomplete="off"
            spellcheck={false}
            placeholder="exactly, such as 203.0.113.9"
            ref={input}
            onInput={({ currentTarget }) => currentTarget.value === '' && client !== '' && find()}
          />
          <button type="submit">Find</button>
        </form>
      </search>
      <Table
        id="bans"
        caption="Bans in force"
        columns={columnsOf(now, setLifting)}
        rows={inForce}
        keyOf={keyOf}
        empty={client === '' ? 'No bans in force.' : `No ban of ${client} in force.`}
      />
      {(pages.length > 1 || page.next !== undefined) && (
        <nav class="pager" aria-label="Pages of bans">
          <button
            type="button"
            disabled={pages.length === 1}
            onClick={() => setPages(pages.slice(0, -1))}
          >
            Previous
          </button>
          <span class="faint" id="ban-page">
            Page {pages.length}
          </span>
          <button
            type="button"
            disabled={page.next === undefined}
            onClick={() => setPages([...pages, page.next])}
          >
            Next
          </button>
        </nav>
      )}
      {isAdding && (
        <BanForm {...{ rules, now, actions }} onAdded={reload} onClose={() => setAdding(false)} />
      )}
      {lifting && (
        <LiftDialog
          {...{ ban: lifting, now, actions }}
          onLifted={() => {
            setPage({ ...page, bans: page.bans.filter(one => keyOf(one) !== keyOf(lifting)) })
            reload()
          }}
          onClose={closeLifting}
        />
      )}
    </Panel>
  )
}

function columnsOf(now: number, lift: (ban: Ban) => void): readonly Column<Ban>[] {
  return [
    { label: 'Client', kind: 'name', cell: ({ client }) => client },
    { label: 'Rule', kind: 'text', cell: ({ rule }) => rule },
    {
      label: 'Ends in',
      kind: 'number',
      cell: ({ ends_at }) => formatSpan(Date.parse(ends_at) - now),
    },
    {
      label: 'Lift',
      kind: 'action',
      cell: ban => (
        <button
          type="button"
          aria-label={`Lift the ban of ${ban.client} by ${ban.rule}`}
          onClick={() => lift(ban)}
        >
          Lift
        </button>
      ),
    },
  ]
}

interface LiftProps extends Pick<PanelProps, 'actions'> {
  readonly ban: Ban
  readonly now: number
  readonly onLifted: () => void
  readonly onClose: () => void
}

function LiftDialog({ ban, now, actions, onLifted, onClose }: LiftProps) {
  const [error, setError] = useState<string>()
  const ends = Date.parse(ban.ends_at)

  async function lift(): Promise<boolean> {
    try {
      const wasInForce = await liftBan(ban)
      const which = `the ban of ${ban.client} by ${ban.rule}`
      actions.notify(wasInForce ? `Lifted ${which}.` : `When lifted, ${which} had ended.`)
      onLifted()
      return true
    } catch (problem) {
      setError(actions.explain(problem))
      return false
    }
  }

  return (
    <Dialog
      id="lift-dialog"
      title="Lift this ban?"
      action="Lift the ban"
      isDanger
      onSubmit={lift}
      onClose={onClose}
    >
      <Facts
        id="lift-facts"
        facts={[
          ['Client', ban.client],
          ['Rule', ban.rule],
          ['Ends', `${formatMoment(ends, now)}, in ${formatSpan(ends - now)}`],
        ]}
      />
      <Wrong id="lift-error" text={error} />
    </Dialog>
  )
}

function keyOf({ rule, client }: Ban): string {
  return JSON.stringify([rule, client])
}
