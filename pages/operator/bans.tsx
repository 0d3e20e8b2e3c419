import { useRef, useState } from 'preact/hooks'
import { BanForm } from './ban-form.tsx'
import { useBanPages } from './ban-pages.ts'
import { Dialog, Wrong } from './dialog.tsx'
import { formatCount, formatMoment, formatSpan } from './format.ts'
import { Facts, Panel, type PanelProps } from './panel.tsx'
import { type Ban, liftBan } from './service.ts'
import { type Column, numbers, Table } from './table.tsx'

/** The list of bans by pages, with a dialog to lift one and a form to add one. */
export function Bans({ view, actions }: PanelProps) {
  const pages = useBanPages({ view, actions })
  const [lifting, setLifting] = useState<Ban>()
  const [isAdding, setAdding] = useState(false)
  const now = view?.now ?? Date.now()
  const rules = view?.status.limits.rules.filter(({ type }) => type === 'ban') ?? []
  const add = {
    disabled: rules.length === 0,
    title: view && rules.length === 0 ? 'No rule of the limits bans clients' : '',
    onClick: () => setAdding(true),
  }

  function closeLifting(): void {
    setLifting(undefined)
    // Once the ban is lifted, the button that opened the dialog is gone.
    if (!document.activeElement?.closest('table')) document.getElementById('add-ban')?.focus()
  }

  return (
    <Panel
      name="bans"
      title="Bans"
      note={view && `${formatCount(view.status.bans)} in force`}
      button={
        <button type="button" id="add-ban" {...add}>
          Add a ban…
        </button>
      }
    >
      <Search onSearch={pages.find} />
      <Table
        id="bans"
        caption="Bans in force"
        columns={columnsOf(now, setLifting)}
        rows={pages.bans.filter(({ ends_at }) => Date.parse(ends_at) > now)}
        keyOf={({ rule, client }) => JSON.stringify([rule, client])}
        empty={pages.client === '' ? 'No bans in force.' : `No ban of ${pages.client} in force.`}
      />
      {(pages.number > 1 || pages.hasNext) && <Pager {...pages} />}
      {isAdding && (
        <BanForm
          {...{ rules, now, actions }}
          onAdded={() => pages.reload()}
          onClose={() => setAdding(false)}
        />
      )}
      {lifting && (
        <LiftDialog
          {...{ ban: lifting, now, actions }}
          onLifted={() => pages.reload(lifting)}
          onClose={closeLifting}
        />
      )}
    </Panel>
  )
}

function Search({ onSearch }: { readonly onSearch: (client: string) => void }) {
  const client = useRef<HTMLInputElement>(null)
  return (
    <search aria-label="Bans">
      <form
        class="filter"
        onSubmit={event => {
          event.preventDefault()
          onSearch(client.current?.value.trim() ?? '')
        }}
      >
        <label for="ban-client">Client</label>
        <input
          id="ban-client"
          type="search"
          autocomplete="off"
          spellcheck={false}
          placeholder="exactly, such as 203.0.113.9"
          ref={client}
          // The cross of the field was used.
          onInput={({ currentTarget: { value } }) => value === '' && onSearch('')}
        />
        <button type="submit">Find</button>
      </form>
    </search>
  )
}

type PagerProps = Pick<ReturnType<typeof useBanPages>, 'number' | 'hasNext' | 'previous' | 'next'>

function Pager({ number, hasNext, previous, next }: PagerProps) {
  return (
    <nav class="pager" aria-label="Pages of bans">
      <button type="button" disabled={number === 1} onClick={previous}>
        Previous
      </button>
      <span class="faint" id="ban-page">
        Page {number}
      </span>
      <button type="button" disabled={!hasNext} onClick={next}>
        Next
      </button>
    </nav>
  )
}

function columnsOf(now: number, lift: (ban: Ban) => void): readonly Column<Ban>[] {
  return [
    { label: 'Client', kind: 'name', cell: ({ client }) => client },
    { label: 'Rule', kind: 'text', cell: ({ rule }) => rule },
    numbers('Ends in', ({ ends_at }) => formatSpan(Date.parse(ends_at) - now)),
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
  /** The time of the service, in milliseconds since the epoch. */
  readonly now: number
  readonly onLifted: () => void
  readonly onClose: () => void
}

/** The dialog that lifts a ban. */
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

  const props = { id: 'lift-dialog', title: 'Lift this ban?', action: 'Lift the ban' }
  return (
    <Dialog {...props} isDanger onSubmit={lift} onClose={onClose}>
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
